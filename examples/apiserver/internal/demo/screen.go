// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// tableAccept asks for what kubectl get asks for.
const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io"

// screen is where the walk is shown. Its writer keeps its first error, so that not each line has to be checked.
type screen struct {
	out *stickyWriter
}

// stickyWriter writes until an error occurs, and then nothing.
type stickyWriter struct {
	io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	var n int
	n, w.err = w.Writer.Write(p)
	return n, w.err
}

func newScreen(out io.Writer) *screen { return &screen{out: &stickyWriter{Writer: out}} }

func (s *screen) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// title begins a step.
func (s *screen) title(n int, title string) { s.printf("\n=== %d. %s\n\n", n, title) }

// say is a sentence to the reader.
func (s *screen) say(format string, args ...any) { s.printf(format+"\n", args...) }

// command is what the reader would type.
func (s *screen) command(format string, args ...any) { s.printf("\n$ "+format+"\n", args...) }

// refused shows an error as kubectl does.
func (s *screen) refused(err error) {
	if status, ok := err.(apierrors.APIStatus); ok && status.Status().Reason != metav1.StatusReasonUnknown {
		s.printf("Error from server (%s): %v\n", status.Status().Reason, err)
		return
	}
	s.printf("Error from server: %v\n", err)
}

// get shows the server's table of a resource: request is a GET without its options. At most rows rows are shown if
// that is not 0.
func (s *screen) get(ctx context.Context, request *rest.Request, rows int) error {
	var table metav1.Table
	if err := request.SetHeader("Accept", tableAccept).Do(ctx).Into(&table); err != nil {
		return fmt.Errorf("get a table: %w", err)
	}
	s.table(&table, rows)
	return nil
}

func (s *screen) table(table *metav1.Table, rows int) {
	w := tabwriter.NewWriter(s.out, 6, 4, 3, ' ', 0) // as kubectl lays out
	line := func(cell func(i int) any) {
		var cells []string
		for i, col := range table.ColumnDefinitions {
			if col.Priority == 0 {
				cells = append(cells, fmt.Sprint(cell(i)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(i int) any { return strings.ToUpper(table.ColumnDefinitions[i].Name) })
	shown := table.Rows
	if rows > 0 && len(shown) > rows {
		shown = shown[:rows]
	}
	for _, row := range shown {
		line(func(i int) any { return row.Cells[i] })
	}
	w.Flush() // its error stays in s.out
	if more := len(table.Rows) - len(shown); more > 0 {
		s.printf("... and %d more\n", more)
	}
}
