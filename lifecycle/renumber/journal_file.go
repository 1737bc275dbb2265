// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

const (
	planFile    = "plan.yaml"
	entriesFile = "journal.jsonl"
)

// FileJournal is a folder: the plan, and one line of JSON for each entry. What is
// appended is on the disk when Append returns. Files can be read by their owner only:
// annotations of Services may hold what is not for everybody.
type FileJournal struct {
	dir string

	mu   sync.Mutex
	file *os.File // open for appending, once it was appended to
}

var _ Journal = (*FileJournal)(nil)

// NewFileJournal keeps the journal in dir, which need not be there.
func NewFileJournal(dir string) *FileJournal { return &FileJournal{dir: dir} }

// Dir is the folder.
func (j *FileJournal) Dir() string { return j.dir }

// Close closes the file, if one is open.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// Plan reads it.
func (j *FileJournal) Plan(context.Context) (*Plan, error) {
	f, err := os.Open(filepath.Join(j.dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoJournal, j.dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := ReadPlan(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p, nil
}

// Begin makes the folder. The plan gets its name last, so that there is no half of it.
func (j *FileJournal) Begin(_ context.Context, p *Plan) error {
	path := filepath.Join(j.dir, planFile)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return fmt.Errorf("the journal cannot be made: %w: choose another place with --journal", err)
	}
	var raw bytes.Buffer
	if err := p.Encode(&raw); err != nil {
		return err
	}
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("the journal cannot be made: %w: choose another place with --journal", err)
	}
	_, err = f.Write(raw.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("the plan cannot be kept: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return errors.Join(syncDir(j.dir), syncDir(filepath.Dir(j.dir)))
}

// Append writes the entries and waits for the disk.
func (j *FileJournal) Append(_ context.Context, entries ...Entry) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(); err != nil {
		return fmt.Errorf("the journal cannot be written: %w", err)
	}
	if _, err := j.file.Write(raw.Bytes()); err != nil {
		return fmt.Errorf("the journal cannot be written: %w: nothing more is done until it can", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("the journal cannot be written: %w: nothing more is done until it can", err)
	}
	return nil
}

// open opens the file for appending. A line that a crash has cut is ended first, so
// that the next one begins on its own.
func (j *FileJournal) open() error {
	if j.file != nil {
		return nil
	}
	path := filepath.Join(j.dir, entriesFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			if _, err := f.Write([]byte{'\n'}); err != nil {
				return errors.Join(err, f.Close())
			}
		}
	}
	j.file = f
	return syncDir(j.dir)
}

// Entries reads them. A line that does not parse was cut by a crash before Append
// returned: nothing was done on its strength, and it is passed over.
func (j *FileJournal) Entries(context.Context) ([]Entry, error) {
	f, err := os.Open(filepath.Join(j.dir, entriesFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(j.dir, planFile)); err == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("%w in %s", ErrNoJournal, j.dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Entry
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		var e Entry
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &e) == nil {
			all = append(all, e)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	sortEntries(all)
	return all, nil
}

// Journals lists the plans that have a journal in a folder, by name.
func Journals(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", planFile))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = filepath.Base(filepath.Dir(f))
	}
	slices.Sort(names)
	return names, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
