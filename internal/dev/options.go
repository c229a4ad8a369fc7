package dev

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
)

// ErrUsage is wrapped by errors that the user mends by other flags or manifests.
var ErrUsage = errors.New("flags or manifests are wrong")

// usageError is an ErrUsage whose text is the fault alone: a manifest's fault begins with the
// field's path.
type usageError struct{ fault error }

func (e *usageError) Error() string   { return e.fault.Error() }
func (e *usageError) Unwrap() []error { return []error{ErrUsage, e.fault} }

func usage(fault error) error { return &usageError{fault} }

// Options of a development cluster, as the flags of `heartwood dev` give them.
type Options struct {
	Manifests []string // files and folders; none: what the data directory holds from before
	Brokers   int      // 0: what the LogCluster says, or 1 without one
	// host:port of broker 0; broker i listens on port+i; default 127.0.0.1:9092; port 0: any, each
	// its own
	Listen string
	// host:port of metrics, health and API; default 127.0.0.1:9644; port 0: any
	HTTP    string
	DataDir string       // default heartwood-data
	Racks   []string     // broker i is in Racks[i % len(Racks)]; none: brokers are in no racks
	Out     io.Writer    // the lines for people: one a topic, then the ready line; default: none
	Logger  *slog.Logger // default: none
	// AcceptDataLoss lets partitions whose records are gone, as the disks of all that were in sync
	// are, go on with what there is.
	AcceptDataLoss bool
	Processes      bool   // each broker in a process of its own: this binary, started again
	NoRestart      bool   // a process that ended is left so
	LogLevel       string // for those processes; default: warn
}

// rack of broker i; "" without racks.
func (o Options) rack(i int) string {
	if len(o.Racks) == 0 {
		return ""
	}
	return o.Racks[i%len(o.Racks)]
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:9092")
	o.HTTP = cmp.Or(o.HTTP, "127.0.0.1:9644")
	o.DataDir = cmp.Or(o.DataDir, "heartwood-data")
	if o.Out == nil {
		o.Out = io.Discard
	}
	o.LogLevel = cmp.Or(o.LogLevel, "warn")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// address is a host:port to listen on.
type address struct {
	flag string
	host string
	port int
}

// parseAddress reads the value of a flag; its errors wrap ErrUsage and name the flag. The host is
// not resolved here.
func parseAddress(flag, text string) (address, error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return address{}, usage(fmt.Errorf("--%s %q: want host:port, such as 127.0.0.1:9092", flag,
			text))
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return address{}, usage(fmt.Errorf("--%s %q: want a port from 0 to 65535", flag, text))
	}
	return address{flag, host, int(port)}, nil
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// anyHost tells whether the address stands for all of the machine's.
func (a address) anyHost() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "" || err == nil && ip.IsUnspecified()
}

// forBrokers checks that the address leaves room for n brokers in a row.
func (a address) forBrokers(n int) error {
	switch {
	case a.port+n-1 > 65535:
		return usage(
			fmt.Errorf(
				"--%s %s: %d brokers need the ports %d to %d, and 65535 is the highest",
				a.flag,
				a,
				n,
				a.port,
				a.port+n-1,
			),
		)
	case a.port == 0 && a.anyHost():
		// What clients are told must be known before the broker listens.
		return usage(fmt.Errorf("--%s %s: give a host with port 0", a.flag, a))
	}
	return nil
}

// broker is where broker i listens, and what clients are told when that is not the same. Everything
// here is on one machine, so who listens on all addresses is told by the one that always works.
func (a address) broker(i int) (listen, advertise string) {
	if a.port != 0 {
		a.port += i
	}
	listen = a.String()
	if a.anyHost() {
		a.host = "127.0.0.1"
		advertise = a.String()
	}
	return listen, advertise
}
