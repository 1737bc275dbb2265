// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root    = "../.."
	guide   = root + "/docs/apiserver.md"
	elision = "// ..." // stands for lines that are left out
)

// fragment is a piece of code that a document quotes: ```go path/of/the/file.go
type fragment struct {
	file   string
	line   int // where it begins in the document
	blocks [][]string
}

// fragments returns those that name a file.
func fragments(document string) (found []fragment) {
	var now *fragment
	for i, line := range strings.Split(document, "\n") {
		switch {
		case now == nil:
			if info, ok := strings.CutPrefix(line, "```go "); ok {
				now = &fragment{file: info, line: i + 1, blocks: [][]string{nil}}
			}
		case line == "```":
			found = append(found, *now)
			now = nil
		case strings.TrimSpace(line) == elision:
			now.blocks = append(now.blocks, nil)
		default:
			last := len(now.blocks) - 1
			now.blocks[last] = append(now.blocks[last], strings.TrimSpace(line))
		}
	}
	return found
}

// check looks for the blocks in the source, in order.
func (f fragment) check(source string) error {
	lines := strings.Split(source, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	for _, block := range f.blocks {
		at := -1
		for i := 0; i+len(block) <= len(lines) && at < 0; i++ {
			if slices.Equal(lines[i:i+len(block)], block) {
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("line %d: %s has not, or not in this order:\n%s", f.line, f.file, strings.Join(block, "\n"))
		}
		lines = lines[at+len(block):]
	}
	return nil
}

// What the guide quotes is what the example has.
func TestGuideQuotesTheSources(t *testing.T) {
	document, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	all := fragments(string(document))
	if len(all) == 0 {
		t.Fatal("the guide quotes nothing")
	}
	for _, f := range all {
		source, err := os.ReadFile(filepath.Join(root, f.file))
		if err != nil {
			t.Errorf("line %d: %v", f.line, err)
			continue
		}
		if err := f.check(string(source)); err != nil {
			t.Error(err)
		}
	}
}

func TestFragment(t *testing.T) {
	all := fragments("text\n```go a.go\nfunc f() {\n\t// ...\n\treturn\n}\n```\n```go\nnot quoted\n```\n")
	if len(all) != 1 || all[0].file != "a.go" || all[0].line != 2 {
		t.Fatalf("%+v", all)
	}
	for source, ok := range map[string]bool{
		"\tfunc f() {\n\t\tg()\n\t\treturn\n\t}\n": true,
		"func f() {\nreturn\n}":                    true,
		"return\n}\nfunc f() {\n":                  false,
		"func f() {\nreturn nil\n}":                false,
	} {
		if err := all[0].check(source); (err == nil) != ok {
			t.Errorf("%q: %v", source, err)
		}
	}
}
