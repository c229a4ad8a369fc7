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

// TestListenFaults checks that an error that another address can avoid is a usage error that names
// the flag.
func TestListenFaults(t *testing.T) {
	bind := func(errno syscall.Errno) error {
		return &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)}
	}
	for _, test := range []struct {
		name  string
		err   error
		usage bool
		text  string
	}{
		{"in use", bind(syscall.EADDRINUSE), true, "address already in use; choose another --http"},
		{"address of another host", bind(syscall.EADDRNOTAVAIL), true, "choose another --http"},
		{"privileged port", bind(syscall.EACCES), true, "permission denied; choose another --http"},
		{"unknown host", &net.DNSError{Err: "no such host", Name: "nowhere.invalid"}, true,
			"--http: lookup nowhere.invalid: no such host"},
		{"too many open files", bind(syscall.EMFILE), false, "too many open files"},
		{"permission denied for a directory",
			&os.PathError{Op: "open", Path: "d", Err: syscall.EACCES}, false, "open d"},
	} {
		got := listenFault("http", test.err)
		if errors.Is(got, ErrUsage) != test.usage || !strings.Contains(got.Error(), test.text) ||
			!errors.Is(got, test.err) {
			t.Errorf("%s: got error %v; want usage error: %t, containing %q", test.name, got, test.usage,
				test.text)
		}
	}
}

// TestHTTPAnswersBeforeBrokersAreOpen checks that /readyz fails before the brokers are open, and
// that the reports contain neither partitions nor topics.
func TestHTTPAnswersBeforeBrokersAreOpen(t *testing.T) {
	var c cluster
	if err := c.ready(); err == nil {
		t.Error("before the brokers are open, ready returned nil")
	}
	if rows := c.all().Report(); rows != nil {
		t.Errorf("got partitions %v, want none", rows)
	}
	if topics := c.all().Topics(time.Now()); len(topics.Topics) != 0 {
		t.Errorf("got topics %v, want none", topics)
	}
	if _, err := c.all().CleanNow("tickets", nil); !errors.Is(err, broker.ErrStarting) {
		t.Errorf("CleanNow: got error %v, want ErrStarting", err)
	}
}

func TestFaultsSplitsJoinedErrors(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	for _, test := range []struct {
		err  error
		want int
	}{{nil, 0}, {a, 1}, {errors.Join(a, b), 2},
		{errors.Join(errors.Join(a, b), nil, errors.Join(c)), 3}} {
		if got := faults(test.err); len(got) != test.want {
			t.Errorf("%v: got %d faults, want %d", test.err, len(got), test.want)
		}
	}
}
