// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package printers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"
)

// none stands for a value that is not there.
const none = "<none>"

// column is one column of a table of T, and what it says of an object.
type column[T any] struct {
	metav1.TableColumnDefinition
	cell func(obj *T, now time.Time) string
}

// object is a pointer to T that is an API object.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// converter is a [rest.TableConvertor] for objects and lists of one kind.
type converter[T any, P object[T]] struct {
	columns []column[T]
	clock   clock.PassiveClock
}

// text is a column of strings, shown always.
func text[T any](name, description string, cell func(obj *T) string) column[T] {
	return column[T]{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: "string", Description: description},
		cell:                  func(obj *T, _ time.Time) string { return cell(obj) },
	}
}

// wide is col, shown only when wide.
func wide[T any](col column[T]) column[T] {
	col.Priority = 1
	return col
}

func name[T any, P object[T]]() column[T] {
	col := text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], func(obj *T) string { return P(obj).GetName() })
	col.Format = "name"
	return col
}

// age is how long ago the object was created. The server's clock says, so that all who look see the same.
func age[T any, P object[T]]() column[T] {
	return column[T]{
		TableColumnDefinition: metav1.TableColumnDefinition{
			Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		},
		cell: func(obj *T, now time.Time) string {
			created := P(obj).GetCreationTimestamp()
			if created.IsZero() {
				return "<unknown>"
			}
			return duration.HumanDuration(now.Sub(created.Time))
		},
	}
}

// ConvertToTable implements [rest.TableConvertor].
func (c *converter[T, P]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opt, ok := options.(*metav1.TableOptions); !ok || !opt.NoHeaders {
		for _, col := range c.columns {
			table.ColumnDefinitions = append(table.ColumnDefinitions, col.TableColumnDefinition)
		}
	}
	now := c.clock.Now()
	add := func(obj runtime.Object) error {
		o, ok := obj.(P)
		if !ok {
			return fmt.Errorf("table of %T: it holds a %T", P(nil), obj)
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: obj}}
		for _, col := range c.columns {
			row.Cells = append(row.Cells, col.cell((*T)(o), now))
		}
		table.Rows = append(table.Rows, row)
		return nil
	}
	if !meta.IsListType(obj) {
		if err := add(obj); err != nil {
			return nil, err
		}
		if one, err := meta.CommonAccessor(obj); err == nil {
			table.ResourceVersion = one.GetResourceVersion()
		}
		return table, nil
	}
	if err := meta.EachListItem(obj, add); err != nil {
		return nil, err
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	}
	return table, nil
}

var _ rest.TableConvertor = (*converter[metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata])(nil)
