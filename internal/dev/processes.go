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
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/metadata/remote"
)

const (
	// restartDelay is how long a broker stays down whose process ended sooner than that after its
	// start: what ended it may do so again. Any other is started at once, as the kubelet does.
	restartDelay = time.Second
	// stopTimeout is how long a process has for an orderly stop, or to end after its session did,
	// before it is killed.
	stopTimeout = 40 * time.Second
)

// childSocket is the file descriptor of a child's end of the socket pair: the first after the
// standard ones.
const childSocket = 3

// keepProcess runs broker i in a process of its own, and again when it ends, until ctx does. A
// broker that cannot even register the first time fails the cluster: the same would happen again.
func (c *cluster) keepProcess(ctx context.Context, i int) error {
	p := &process{cluster: c, id: i}
	p.listen, p.advertise = c.listen.broker(i)
	for first := true; ; first = false {
		started := time.Now()
		err := p.run(ctx)
		lived := time.Since(started)
		switch {
		case ctx.Err() != nil:
			return err
		case first && p.registered.Load() == nil:
			return fmt.Errorf("broker %d does not start: %w", i, err)
		}
		c.print(fmt.Sprintf("broker %d ended: %v", i, err))
		if c.opts.NoRestart {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseAfter(lived)):
		}
	}
}

// pauseAfter is how long a broker stays down whose process has lived for so long.
func pauseAfter(lived time.Duration) time.Duration {
	if lived >= restartDelay {
		return 0
	}
	return restartDelay
}

// process is one broker's, over all its lives.
type process struct {
	cluster           *cluster
	id                int
	listen, advertise string
	registered        atomic.Pointer[metadata.Broker] // as it did last; nil: not yet
}

// run starts the process and waits for its end, which it asks for when ctx ends.
func (p *process) run(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	command, err := p.command(theirs)
	if err == nil {
		err = command.Start()
	}
	_ = theirs.Close() // the child has its own
	if err != nil {
		_ = ours.Close()
		return fmt.Errorf("start process: %w", err)
	}
	p.cluster.print(fmt.Sprintf("broker %d started pid=%d", p.id, command.Process.Pid))
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var session errgroup.Group
	silent := make(chan struct{})
	session.Go(func() error {
		defer close(silent)
		return remote.Serve(serving, ours, int32(p.id),
			noted{local.Session{Store: p.cluster.store, Broker: int32(p.id)}, p})
	})
	err = wait(ctx, command, silent)
	stopServing()
	if fault := session.Wait(); err == nil && fault != nil && ctx.Err() == nil {
		err = fault
	}
	return err
}

// wait returns how a process ended. When ctx ends it is told to stop in order; when its session
// has, it ends by itself, unless it hangs.
func wait(ctx context.Context, command *exec.Cmd, silent <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	asked := false
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		asked = true
		_ = command.Process.Signal(syscall.SIGTERM) // fails when it has ended, which Wait tells
	case <-silent:
	}
	select {
	case err := <-ended:
		if asked && endedBy(err, syscall.SIGTERM) {
			// it was made a moment ago, and did not listen for signals yet: it had nothing to stop
			return nil
		}
		return err
	case <-time.After(stopTimeout):
		_ = command.Process.Kill()
		return errors.Join(fmt.Errorf("killed, as it did not stop within %s", stopTimeout), <-ended)
	}
}

// endedBy tells whether a process was ended by a signal, instead of by itself.
func endedBy(err error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// command is this binary again. Its own process group keeps a Ctrl-C of the terminal for the
// parent, which stops all in order.
func (p *process) command(socket *os.File) (*exec.Cmd, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	listen := p.listen
	// the port that clients know, also when the first was any
	if self := p.registered.Load(); self != nil {
		if endpoint, ok := self.Endpoints.On(metadata.DefaultListener); ok {
			listen = endpoint.String()
		}
	}
	c := p.cluster
	// Without a context, which would kill it: wait stops it in order.
	command := exec.CommandContext(context.Background(), binary, "dev-broker", "--node-id",
		strconv.Itoa(p.id), "--listen", listen, "--advertise", p.advertise,
		"--data-dir", c.brokerDir(p.id), "--rack", c.opts.rack(p.id), "--http", c.childHTTP(p.id),
		"--log-level", c.opts.LogLevel)
	command.ExtraFiles = []*os.File{socket}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command, nil
}

// childHTTP is where broker i serves its metrics: on the ports after the cluster's own; "",
// nowhere, when that is any.
func (c *cluster) childHTTP(i int) string {
	if c.http.port == 0 {
		return ""
	}
	next := c.http
	next.port += 1 + i
	return next.String()
}

// sendOn answers what only brokers know with where they are (421): none runs in this process, and
// an empty answer would pass for an empty cluster.
func (c *cluster) sendOn(own http.Handler) http.Handler {
	where := "give --http a port to see them"
	if c.http.port != 0 {
		where = fmt.Sprintf("ask %s for broker 0, and the ports after it for the others",
			c.childHTTP(0))
	}
	body, _ := json.Marshal(
		report.Failure{
			Error:  "the brokers of --processes have HTTP ports of their own: " + where,
			Reason: "Misdirected",
		},
	)
	return http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		if !strings.HasPrefix(request.URL.Path, "/api/") {
			own.ServeHTTP(to, request)
			return
		}
		to.Header().Set("Content-Type", "application/json")
		to.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = to.Write(body)
	})
}

// noted is a session that remembers that its broker has registered, and where.
type noted struct {
	local.Session
	process *process
}

// Run implements metadata.Store.
func (n noted) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	n.process.registered.Store(&self)
	return n.Session.Run(ctx, self, apply)
}

// socketPair returns two connected ends; both close when this process executes another, unless it
// is given one.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	near, far := os.NewFile(uintptr(pair[0]), "store"), os.NewFile(uintptr(pair[1]), "broker")
	defer func() { _ = near.Close() }() // FileConn has a copy
	if ours, err = net.FileConn(near); err != nil {
		_ = far.Close()
		return nil, nil, fmt.Errorf("use a socket pair: %w", err)
	}
	return ours, far, nil
}
