// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folderPattern = "metacidr-controlplane-*"
	ownerFile     = "owner.lock"
)

// folder is where one control plane keeps all its files. Its owner file is locked
// for as long as the owning process lives, so that others can tell a folder in use
// from one that a crash left.
type folder struct {
	path     string
	temp     bool     // to be removed at the end
	keepLogs bool     // but for its logs, which the next removeAbandoned takes
	lock     *os.File // the locked owner file
}

// openFolder takes path, or a new temporary folder if path is empty.
func openFolder(path string) (*folder, error) {
	f := &folder{path: path}
	var err error
	if path == "" {
		removeAbandoned(os.TempDir())
		f.temp = true
		f.path, err = os.MkdirTemp("", folderPattern)
	} else {
		f.path, err = filepath.Abs(path)
		if err == nil {
			err = os.MkdirAll(f.path, 0o700)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the control plane's folder: %w", err)
	}
	if f.lock, err = lockOwner(f.path); err != nil {
		if f.temp {
			_ = os.RemoveAll(f.path)
		}
		return nil, fmt.Errorf("folder %s: %w", f.path, err)
	}
	return f, nil
}

// lockOwner makes and locks the owner file. A new one gets its name only when it is
// locked: removeAbandoned must never see it unlocked.
func lockOwner(dir string) (*os.File, error) {
	name := filepath.Join(dir, ownerFile)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	fresh := errors.Is(err, os.ErrNotExist)
	if fresh {
		file, err = os.CreateTemp(dir, ownerFile+".*")
	}
	if err != nil {
		return nil, err
	}
	if err := tryLock(file); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, err
	}
	if !fresh {
		return file, nil
	}
	// Link, unlike rename, fails if another process was first.
	err = os.Link(file.Name(), name)
	if rmErr := os.Remove(file.Name()); err == nil {
		err = rmErr
	}
	if err != nil {
		file.Close()
		if errors.Is(err, os.ErrExist) {
			err = ErrInUse
		}
		return nil, err
	}
	return file, nil
}

// close removes a temporary folder and gives up the lock.
func (f *folder) close() error {
	var err error
	switch {
	case f.temp && f.keepLogs:
		err = f.removeAllButLogs()
	case f.temp:
		err = os.RemoveAll(f.path)
	}
	return errors.Join(err, f.lock.Close())
}

func (f *folder) removeAllButLogs() error {
	entries, err := os.ReadDir(f.path)
	for _, e := range entries {
		if name := e.Name(); name != ownerFile && filepath.Ext(name) != ".log" {
			err = errors.Join(err, os.RemoveAll(f.join(name)))
		}
	}
	return err
}

func (f *folder) join(elem ...string) string {
	return filepath.Join(append([]string{f.path}, elem...)...)
}

// removeAbandoned removes the temporary folders in dir whose owner has died. It is
// best effort: what it cannot open belongs to another user.
func removeAbandoned(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, folderPattern, ownerFile))
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if tryLock(file) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		file.Close()
	}
}

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
