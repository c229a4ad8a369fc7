package smoke

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline ends a test that waits for what does not come. It is far above what anything here takes.
const deadline = 3 * time.Minute

var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	binary = os.Getenv("HEARTWOOD_BINARY")
	if binary == "" {
		dir, err := os.MkdirTemp("", "heartwood-smoke-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "heartwood")
		build := exec.Command("go", "build", "-o", binary, "../../cmd/heartwood")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic("build the binary: " + err.Error() + "\n" + string(out))
		}
	}
	return m.Run()
}

// setup is what two processes of one cluster have in common.
type setup struct {
	manifests string
	dataDir   string
	listen    string
	http      string
	brokers   int
}

func newSetup(t *testing.T, brokers int, documents ...string) setup {
	t.Helper()
	dir := t.TempDir()
	s := setup{
		manifests: filepath.Join(dir, "manifests"),
		dataDir:   filepath.Join(dir, "data"),
		listen:    freePorts(t, brokers),
		http:      freePorts(t, 1),
		brokers:   brokers,
	}
	if err := os.Mkdir(s.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	s.apply(t, "cluster.yaml", strings.Join(documents, "---\n"))
	return s
}

// apply writes a manifest the way editors and kubectl-like tools do: whole, by rename.
func (s setup) apply(t *testing.T, name, content string) {
	t.Helper()
	partial := filepath.Join(filepath.Dir(s.manifests), name+".partial")
	if err := os.WriteFile(partial, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(partial, filepath.Join(s.manifests, name)); err != nil {
		t.Fatal(err)
	}
}

func (s setup) args() []string {
	return []string{
		"dev", "-f", s.manifests, "--brokers", strconv.Itoa(s.brokers),
		"--listen", s.listen, "--http", s.http, "--data-dir", s.dataDir,
	}
}

// Ports that tests may take: below those that the system gives to outgoing connections. From among the latter a client that
// knocks at the port of a killed process may be given that very port, and the process cannot come back.
const portFirst, portLast = 20000, 32000

// freePorts finds n ports in a row on loopback and returns the address of the first. They are free when it returns; the command
// takes fixed ports, so nothing can hold them for it.
func freePorts(t *testing.T, n int) string {
	t.Helper()
	for range 100 {
		port := portFirst + rand.IntN(portLast-portFirst-n)
		var held []net.Listener
		for i := range n {
			listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+i))
			if err != nil {
				break
			}
			held = append(held, listener)
		}
		for _, listener := range held {
			listener.Close()
		}
		if len(held) == n {
			return "127.0.0.1:" + strconv.Itoa(port)
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return ""
}

// process is a running heartwood.
type process struct {
	cmd    *exec.Cmd
	lines  chan string // of stdout; closed at its end
	stderr *safeBuffer
	exited chan struct{} // closed once the exit code is known
}

// start runs heartwood and kills it when the test ends, should it still run.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: exec.Command(binary, args...), lines: make(chan string, 1024), stderr: &safeBuffer{}, exited: make(chan struct{}),
	}
	p.cmd.Stderr = p.stderr
	// A pipe of our own: cmd.StdoutPipe is closed by Wait, which may come before the last line is read.
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
		defer close(p.lines)
		defer reader.Close()
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", p.cmd.Args, p.stderr.String())
		}
	})
	return p
}

// ready waits for the ready line and returns the bootstrap addresses and the lines before it.
func (p *process) ready(t *testing.T) (bootstrap, before []string) {
	t.Helper()
	expired := time.After(deadline)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.exited
				t.Fatalf("ended with code %d before it was ready; stdout %q, stderr:\n%s", p.code(), before, p.stderr.String())
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
			t.Fatalf("the ready line carries no bootstrap=: %q", line)
		case <-expired:
			t.Fatalf("not ready; stdout so far %q", before)
		}
	}
}

func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

// stop sends a signal and returns the exit code, -1 when the signal itself ended the process.
func (p *process) stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.wait(t)
}

// wait waits for the end and returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.code()
	case <-time.After(deadline):
		t.Fatalf("%v does not end", p.cmd.Args)
		return -1
	}
}

// safeBuffer is written by os/exec and read by the test.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// until asks again and again, until ask returns nothing; that is what it still waits for.
func until(t *testing.T, ask func() string) {
	t.Helper()
	ctx := limited(t)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		missing := ask()
		if missing == "" {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", missing)
		}
	}
}

// limited is the test's context with the deadline, for calls that would otherwise wait for ever.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}
