// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// CacheEnv names the environment variable that replaces <project root>/.cache as the
	// folder under which built components are kept.
	CacheEnv = "METACIDR_CACHE"

	moduleName     = "github.com/metacidr/metacidr/e2e"
	kubernetesMod  = "k8s.io/kubernetes"
	versionPackage = "k8s.io/component-base/version"
	etcdMain       = "go.etcd.io/etcd/server/v3"
	apiServerMain  = "k8s.io/kubernetes/cmd/kube-apiserver"

	lockInterval = 200 * time.Millisecond // between two looks at another process's build
	outputLines  = 30                     // of the go command, in an error
)

// Binaries are the paths of the built components.
type Binaries struct {
	Etcd      string
	APIServer string
}

// Build builds etcd and kube-apiserver from the modules that e2e/go.mod names, unless
// the cache has them. A build is announced to log: the first takes some minutes, since
// all of Kubernetes is compiled.
//
// The cache is <project root>/.cache/controlplane/<key>, or $METACIDR_CACHE/controlplane/<key>;
// the key is a hash of go.mod, go.sum, the toolchain and the flags. It may be deleted at
// any time. Processes that build the same key wait for each other, and a build that is
// cut short leaves nothing that would be used. Errors: [*BuildError].
func Build(ctx context.Context, log io.Writer) (Binaries, error) {
	b, err := newBuilder(ctx)
	if err != nil {
		return Binaries{}, err
	}
	binaries := Binaries{Etcd: filepath.Join(b.cache, string(Etcd)), APIServer: filepath.Join(b.cache, string(APIServer))}
	if exists(binaries.Etcd) && exists(binaries.APIServer) {
		return binaries, nil
	}
	unlock, err := b.lock(ctx, log)
	if err != nil {
		return Binaries{}, fmt.Errorf("build the control plane: %w", err)
	}
	defer unlock()
	// kube-apiserver second: the quick one shows faults of the set-up first.
	if err := b.build(ctx, log, etcdMain, binaries.Etcd); err != nil {
		return Binaries{}, err
	}
	if err := b.build(ctx, log, apiServerMain, binaries.APIServer); err != nil {
		return Binaries{}, err
	}
	return binaries, nil
}

// builder runs the go command in the folder of the e2e module.
type builder struct {
	module string   // that folder
	cache  string   // where this key's binaries are
	flags  []string // of go build
}

func newBuilder(ctx context.Context) (*builder, error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	b := &builder{module: module}
	version, err := b.goCommand(ctx, "list", "-m", "-f", "{{.Version}}", kubernetesMod)
	if err != nil {
		return nil, err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	b.flags = []string{"-trimpath", "-ldflags", fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		versionPackage, version, major, minor)}

	key, err := b.key(ctx)
	if err != nil {
		return nil, err
	}
	root := os.Getenv(CacheEnv)
	if root == "" {
		root = filepath.Join(filepath.Dir(module), ".cache")
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	b.cache = filepath.Join(root, "controlplane", key)
	return b, nil
}

// key is a hash of all that decides what the binaries are.
func (b *builder) key(ctx context.Context) (string, error) {
	env, err := b.goCommand(ctx, "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", env, b.flags)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(b.module, name))
		if err != nil {
			return "", err
		}
		content := requirements(string(data))
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// requirements returns the distinct lines of a go.mod or go.sum, sorted, without comments:
// that a module is now required directly, and so moved in the file, changes no binary.
func requirements(file string) string {
	var lines []string
	for line := range strings.Lines(file) {
		line, _, _ = strings.Cut(line, "//")
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// lock makes the key's folder and waits until no other process builds into it.
func (b *builder) lock(ctx context.Context, log io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(b.cache, "build.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, lockInterval, true, func(context.Context) (bool, error) {
		err := tryLock(file)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err == nil, err
		}
		if !told {
			told = true
			fmt.Fprintf(log, "controlplane: another process is building into %s; waiting for it\n", b.cache)
		}
		return false, nil
	})
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil // which unlocks
}

// build builds the main package pkg to target unless it is there. It holds the lock.
func (b *builder) build(ctx context.Context, log io.Writer, pkg, target string) error {
	if exists(target) {
		return nil
	}
	fmt.Fprintf(log, "controlplane: building %s into %s; this takes some minutes the first time\n", pkg, b.cache)
	begin := time.Now()
	// A fixed name: what a cut build left is overwritten by the next.
	temp := target + ".tmp"
	args := append(append([]string{"build"}, b.flags...), "-o", temp, pkg)
	if _, err := b.goCommand(ctx, args...); err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	fmt.Fprintf(log, "controlplane: built %s in %s\n", filepath.Base(target), time.Since(begin).Round(time.Second))
	return nil
}

// goCommand runs go in the module's folder, outside any workspace, and returns what it
// wrote to its standard output. At the end of ctx it and the compilers that it started
// are killed.
func (b *builder) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+b.module)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", &BuildError{Args: args, Dir: b.module, Output: lastLines(stderr.String(), outputLines), Err: err}
	}
	return strings.TrimSpace(stdout.String()), nil
}

// moduleDir finds the folder of the e2e module: where this file was compiled, or else
// where the go command finds it from the working folder.
func moduleDir(ctx context.Context) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if dir := filepath.Dir(filepath.Dir(file)); exists(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", moduleName).Output()
	if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
		return dir, nil
	}
	return "", fmt.Errorf("the folder of module %s was not found: run this inside a checkout of metacidr", moduleName)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
