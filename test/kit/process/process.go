package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/output"
	"heartwood.dev/heartwood/test/kit/ports"
)

// dumpMax is the maximum time for which a test waits until a process has written the stacks of its
// goroutines. A process stopped with SIGSTOP never writes them.
const dumpMax = 10 * time.Second

// binary is the path of the heartwood binary; Main sets it before any test runs.
var binary string

// Main is the body of a package's TestMain. It finds or builds the binary, runs the tests and
// returns the exit code.
func Main(m *testing.M) int {
	binary = os.Getenv("HEARTWOOD_BINARY")
	if binary == "" {
		dir, err := os.MkdirTemp("", "heartwood-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "heartwood")
		if err := Build(binary, ""); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// Build builds the binary with the given linker flags.
func Build(path, linkerFlags string) error {
	build := exec.Command("go", "build", "-o", path, "-ldflags", linkerFlags, "../../cmd/heartwood")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w: %s", err, out)
	}
	return nil
}

// StartBinary is like Start, with another binary.
func StartBinary(t *testing.T, path string, args ...string) *Process {
	t.Helper()
	return run(t, exec.Command(path, args...))
}

// Setup contains the directories and addresses that the processes of one cluster share.
type Setup struct {
	Manifests string // directory
	DataDir   string // directory that the process creates
	Listen    string // host:port of broker 0; broker i listens on port+i
	HTTP      string // host:port
	Brokers   int
}

// NewSetup picks ports, creates directories, and writes the documents to the manifests directory.
func NewSetup(t *testing.T, brokers int, documents ...string) Setup {
	t.Helper()
	dir := t.TempDir()
	s := Setup{
		Manifests: filepath.Join(dir, "manifests"),
		DataDir:   filepath.Join(dir, "data"),
		Listen:    ports.Free(t, brokers),
		HTTP:      ports.Free(t, 1),
		Brokers:   brokers,
	}
	if err := os.Mkdir(s.Manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Apply(t, "cluster.yaml", strings.Join(documents, "---\n"))
	return s
}

// Apply writes a file to the manifests directory. It writes a temporary file and renames it, so the
// process never reads an incomplete file.
func (s Setup) Apply(t *testing.T, name, content string) {
	t.Helper()
	partial := filepath.Join(filepath.Dir(s.Manifests), name+".partial")
	if err := os.WriteFile(partial, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(s.Manifests, name)); err != nil {
		t.Fatal(err)
	}
}

// Args returns the arguments of `heartwood dev`.
func (s Setup) Args() []string {
	return []string{
		"dev", "-f", s.Manifests, "--brokers", strconv.Itoa(s.Brokers),
		"--listen", s.Listen, "--http", s.HTTP, "--data-dir", s.DataDir,
	}
}

// Process is a running heartwood process.
type Process struct {
	cmd    *exec.Cmd
	Lines  chan string // lines of stdout; closed at the end of stdout
	Stderr *output.Buffer
	exited chan struct{} // closed when the process has exited and its exit code is known
}

// Start runs the heartwood binary. If the process still runs at the end of the test, Start kills
// it.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	return run(t, exec.Command(binary, args...))
}

// StartWith is like Start, with further environment variables, such as "GODEBUG=fips140=on".
func StartWith(t *testing.T, environment []string, args ...string) *Process {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = append(os.Environ(), environment...)
	return run(t, command)
}

// StartLimited is like Start, with a soft limit for open files.
func StartLimited(t *testing.T, openFiles int, args ...string) *Process {
	t.Helper()
	script := fmt.Sprintf(`ulimit -Sn %d && exec "$@"`, openFiles)
	return run(t, exec.Command("sh", append([]string{"-c", script, "sh", binary}, args...)...))
}

// StartOnVolume is like Start, with the data directory on a separate volume of the given size. The
// volume is a tmpfs that only the process can see. The test is skipped if the system does not allow
// this.
func StartOnVolume(t *testing.T, mebibytes int, dataDir string, args ...string) *Process {
	t.Helper()
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%dm,mode=0777 tmpfs %q`, mebibytes, dataDir)
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	inNamespace := func(script string, args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--map-root-user", "--mount", "sh", "-c",
			script, "sh"}, args...)...)
	}
	if out, err := inNamespace(mount).CombinedOutput(); err != nil {
		t.Skipf("no volume can be mounted: %v: %s", err, out)
	}
	return run(t, inNamespace(mount+` && exec "$@"`, append([]string{binary}, args...)...))
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

func run(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{
		cmd: cmd, Lines: make(chan string, 1024), Stderr: &output.Buffer{},
		exited: make(chan struct{}),
	}
	p.cmd.Stderr = p.Stderr
	// cmd.StdoutPipe is not used, because Wait closes it, possibly before the last line has been read.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() {
		defer close(p.Lines)
		defer reader.Close()
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			p.Lines <- scanner.Text()
		}
	}()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		if t.Failed() { // the stacks of a hanging process can show the cause
			p.dump()
		}
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", p.cmd.Args, p.Stderr.String())
		}
	})
	return p
}

// dump makes a running process write the stacks of its goroutines to stderr and exit.
func (p *Process) dump() {
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return // already exited
	}
	select {
	case <-p.exited:
	case <-time.After(dumpMax):
	}
}

// Ready waits for the line which reports that the cluster is ready. It returns the bootstrap
// addresses in this line, and the lines before it.
func (p *Process) Ready(t *testing.T) (bootstrap, before []string) {
	t.Helper()
	expired := time.After(await.Limit)
	for {
		select {
		case line, ok := <-p.Lines:
			if !ok {
				<-p.exited
				t.Fatalf("exited with code %d before it was ready; stdout %q, stderr:\n%s",
					p.Code(),
					before, p.Stderr.String())
			}
			if !strings.HasPrefix(line, "ready") {
				before = append(before, line)
				continue
			}
			for _, field := range strings.Fields(line) {
				if list, found := strings.CutPrefix(field, "bootstrap="); found {
					return strings.Split(list, ","), before
				}
			}
			t.Fatalf("the ready line has no bootstrap=: %q", line)
		case <-expired:
			t.Fatalf("not ready after the deadline; stdout %q", before)
		}
	}
}

// Code returns the exit code of an exited process.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// Stop sends a signal and waits until the process exits. It returns the exit code, or -1 if the
// signal itself ended the process.
func (p *Process) Stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.Wait(t)
}

// Wait waits for the process to exit and returns the exit code.
func (p *Process) Wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.Code()
	case <-time.After(await.Limit):
		t.Fatalf("%v has not exited", p.cmd.Args)
		return -1
	}
}

// WithDeadline returns the test's context with a timeout of await.Limit.
func WithDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	t.Cleanup(cancel)
	return ctx
}
