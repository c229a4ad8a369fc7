package dev

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/broker"
)

// TestListenFaults: what another address would mend is the user's to mend, and the message says
// which flag; the rest is not.
func TestListenFaults(t *testing.T) {
	bind := func(errno syscall.Errno) error {
		return &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)}
	}
	for _, test := range []struct {
		name  string
		err   error
		usage bool
		says  string
	}{
		{"in use", bind(syscall.EADDRINUSE), true, "address already in use; choose another --http"},
		{"not ours", bind(syscall.EADDRNOTAVAIL), true, "choose another --http"},
		{"privileged port", bind(syscall.EACCES), true, "permission denied; choose another --http"},
		{"unknown host", &net.DNSError{Err: "no such host", Name: "nowhere.invalid"}, true,
			"--http: lookup nowhere.invalid: no such host"},
		{"out of files", bind(syscall.EMFILE), false, "too many open files"},
		{"a directory that may not be read is no listener's fault",
			&os.PathError{Op: "open", Path: "d", Err: syscall.EACCES}, false, "open d"},
	} {
		got := listenFault("http", test.err)
		if errors.Is(got, ErrUsage) != test.usage || !strings.Contains(got.Error(), test.says) ||
			!errors.Is(got, test.err) {
			t.Errorf("%s: %v; want usage %t, saying %q", test.name, got, test.usage, test.says)
		}
	}
}

// TestHTTPAnswersBeforeBrokersAreOpen: /readyz says no, and there are no partitions to report yet.
func TestHTTPAnswersBeforeBrokersAreOpen(t *testing.T) {
	var c cluster
	if err := c.ready(); err == nil {
		t.Error("a cluster without brokers is ready")
	}
	if rows := c.all().Report(); rows != nil {
		t.Errorf("it reports %v", rows)
	}
	if topics := c.all().Topics(time.Now()); len(topics.Topics) != 0 {
		t.Errorf("it reports %v", topics)
	}
	if _, err := c.all().CleanNow("tickets", nil); !errors.Is(err, broker.ErrStarting) {
		t.Errorf("asked to clean, it says %v", err)
	}
}

// TestFaultsTakesJoinedErrorsApart, and leaves alone what only wraps.
func TestFaultsTakesJoinedErrorsApart(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	for _, test := range []struct {
		err  error
		want int
	}{{nil, 0}, {a, 1}, {errors.Join(a, b), 2},
		{errors.Join(errors.Join(a, b), nil, errors.Join(c)), 3}} {
		if got := faults(test.err); len(got) != test.want {
			t.Errorf("%v: %d faults, want %d", test.err, len(got), test.want)
		}
	}
}
