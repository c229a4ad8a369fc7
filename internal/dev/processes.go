package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/metadata/remote"
)

const (
	// restartDelay is the pause before a process is restarted that has run for less than restartDelay.
	// Other processes are restarted immediately, as by the kubelet.
	restartDelay = time.Second
	// stopTimeout is how long a process may take to exit before it is killed. The time starts when
	// the process must shut down, or when its connection to the metadata store has ended.
	stopTimeout = 40 * time.Second
)

// childSocket is the file descriptor of the child's end of the socket pair. It is the first
// descriptor after standard error.
const childSocket = 3

// superviseProcess runs broker i in a separate process. It restarts the process when it exits,
// until ctx ends. If the first process exits before the broker has registered, superviseProcess
// returns an error, which stops the cluster.
func (c *cluster) superviseProcess(ctx context.Context, i int) error {
	p := &process{cluster: c, id: i}
	for first := true; ; first = false {
		started := time.Now()
		err := p.run(ctx)
		lived := time.Since(started)
		switch {
		case ctx.Err() != nil:
			return err
		case first && p.registered.Load() == nil:
			return fmt.Errorf("start broker %d: %w", i, err)
		}
		c.print(fmt.Sprintf("broker %d exited: %v", i, err))
		if c.opts.NoRestart {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartPause(lived)):
		}
	}
}

// restartPause returns the pause before the restart of a process that has run for the given time.
func restartPause(lived time.Duration) time.Duration {
	if lived >= restartDelay {
		return 0
	}
	return restartDelay
}

// process is a broker's process, including the processes that replace it after a restart.
type process struct {
	cluster *cluster
	id      int
	// registered is the broker's last registration; nil: the broker has not registered yet.
	registered atomic.Pointer[metadata.Broker]
}

// run starts the process and waits until it exits. When ctx ends, run stops the process.
func (p *process) run(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	command, err := p.command(theirs)
	if err == nil {
		err = command.Start()
	}
	_ = theirs.Close() // the child process has a duplicate
	if err != nil {
		_ = ours.Close()
		return fmt.Errorf("start process: %w", err)
	}
	p.cluster.print(fmt.Sprintf("broker %d started pid=%d", p.id, command.Process.Pid))
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var session errgroup.Group
	sessionEnded := make(chan struct{})
	session.Go(func() error {
		defer close(sessionEnded)
		return remote.Serve(serving, ours, int32(p.id),
			recordingSession{local.Session{Store: p.cluster.store, Broker: int32(p.id)}, p})
	})
	err = wait(ctx, command, sessionEnded)
	stopServing()
	if fault := session.Wait(); err == nil && fault != nil && ctx.Err() == nil {
		err = fault
	}
	return err
}

// wait waits until a process exits. When ctx ends, wait stops the process with SIGTERM. When the
// session ends, the process is expected to exit by itself. After stopTimeout, wait kills the
// process.
func wait(ctx context.Context, command *exec.Cmd, sessionEnded <-chan struct{}) error {
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	signaled := false
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
		signaled = true
		// Signal fails only if the process has exited, and Wait reports that.
		_ = command.Process.Signal(syscall.SIGTERM)
	case <-sessionEnded:
	}
	select {
	case err := <-exited:
		if signaled && exitedBy(err, syscall.SIGTERM) {
			// The process had not installed its signal handler yet, so there was nothing to shut down.
			return nil
		}
		return err
	case <-time.After(stopTimeout):
		_ = command.Process.Kill()
		return errors.Join(fmt.Errorf("killed: process did not stop within %s", stopTimeout),
			<-exited)
	}
}

// exitedBy reports whether the signal has terminated a process.
func exitedBy(err error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// command returns the command for the process, which uses this binary. The process is in a separate
// process group. So Ctrl-C in the terminal does not reach it, and the parent process controls its
// shutdown.
func (p *process) command(socket *os.File) (*exec.Cmd, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := p.cluster
	listeners, err := json.Marshal(p.listeners())
	if err != nil {
		return nil, fmt.Errorf("encode listeners: %w", err)
	}
	// No context is used, because the end of a context would kill the process. wait stops it
	// gracefully.
	command := exec.CommandContext(context.Background(), binary, "dev-broker", "--node-id",
		strconv.Itoa(p.id), "--listeners", string(listeners),
		"--data-dir", c.brokerDir(p.id), "--rack", c.opts.rack(p.id), "--http", c.childHTTP(p.id),
		"--pprof="+strconv.FormatBool(c.opts.Pprof), "--log-level", c.opts.LogLevel,
		"--allow-host", strings.Join(c.opts.Hosts, ","), "--peer-host", c.plainPeerHost())
	if c.security != nil {
		command.Args = append(command.Args, "--certificates", brokerPKIDir(c.opts.DataDir, p.id),
			"--cluster", c.security.cluster)
	}
	command.ExtraFiles = []*os.File{socket}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command, nil
}

// listeners returns the listeners for the process. After a restart it uses the same ports, which
// clients know, even if the system chose them at the first start.
func (p *process) listeners() []broker.Listener {
	all, self := p.cluster.listeners(p.id), p.registered.Load()
	if self == nil || p.cluster.listen.port != 0 {
		return all
	}
	for i := range all {
		if endpoint, ok := self.Endpoints.On(all[i].Name); ok {
			all[i].Listen = endpoint.String()
		}
	}
	return all
}

// childHTTP returns broker i's HTTP address. Its port is the cluster's HTTP port + 1 + i. If the
// system chooses the cluster's HTTP port, childHTTP returns "", and the broker serves no HTTP.
func (c *cluster) childHTTP(i int) string {
	if c.http.port == 0 {
		return ""
	}
	next := c.http
	next.port += 1 + i
	return next.String()
}

// redirectAPI responds to API requests with status 421 and the brokers' HTTP addresses, using the
// host in the request. No broker runs in this process, and a response with an empty list would look
// like an empty cluster.
func (c *cluster) redirectAPI(own http.Handler) http.Handler {
	answer := report.Failure{Reason: "Misdirected", Error: "with --processes each broker has its " +
		"own HTTP port: set a port with --http to enable these ports"}
	if c.http.port != 0 {
		answer.Error = fmt.Sprintf("with --processes each broker has its own HTTP port: use %s for "+
			"broker 0, and the following ports for the other brokers", c.childHTTP(0))
	}
	return http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		if !strings.HasPrefix(request.URL.Path, "/api/") {
			own.ServeHTTP(to, request)
			return
		}
		answer := answer
		answer.Addresses = c.childrenHTTP(request.Host)
		to.Header().Set("Content-Type", "application/json")
		to.WriteHeader(http.StatusMisdirectedRequest)
		_ = json.NewEncoder(to).Encode(answer)
	})
}

// childrenHTTP returns the HTTP addresses of all brokers for a client that has connected to host.
// Parameter host may contain a port.
func (c *cluster) childrenHTTP(host string) (addresses []string) {
	if c.http.port == 0 {
		return nil
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	for i := range c.store.Running() {
		addresses = append(addresses,
			net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(c.http.port+1+i)))
	}
	return addresses
}

// recordingSession is a local.Session that stores its broker's registration in process.
type recordingSession struct {
	local.Session
	process *process
}

// Run implements metadata.Store.
func (s recordingSession) Run(ctx context.Context, self metadata.Broker,
	apply func(*metadata.Image)) error {
	s.process.registered.Store(&self)
	return s.Session.Run(ctx, self, apply)
}

// socketPair returns two connected sockets. A child process inherits a socket only if it is passed
// to the child explicitly.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	// macOS has no SOCK_CLOEXEC. The lock prevents a child process from starting before CloseOnExec.
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("create socket pair: %w", err)
	}
	parent, child := os.NewFile(uintptr(pair[0]), "store"), os.NewFile(uintptr(pair[1]), "broker")
	defer func() { _ = parent.Close() }() // FileConn duplicates the descriptor
	if ours, err = net.FileConn(parent); err != nil {
		_ = child.Close()
		return nil, nil, fmt.Errorf("open socket pair: %w", err)
	}
	return ours, child, nil
}
