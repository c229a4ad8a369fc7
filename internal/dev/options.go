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

	"heartwood.dev/heartwood/internal/loglevel"
)

// ErrUsage is wrapped by all errors in flags or manifests.
var ErrUsage = errors.New("invalid flags or manifests")

// usageError wraps ErrUsage and fault. Its text is the text of fault, which begins with the path of
// the field if the fault is in a manifest.
type usageError struct{ fault error }

func (e *usageError) Error() string   { return e.fault.Error() }
func (e *usageError) Unwrap() []error { return []error{ErrUsage, e.fault} }

func usage(fault error) error { return &usageError{fault} }

// Options configures a development cluster. The fields correspond to the flags of `heartwood dev`.
type Options struct {
	Manifests []string // files and directories; empty: use the state in the data directory
	Brokers   int      // 0: the number in the LogCluster manifest, or 1 without such a manifest
	// Listen is the host:port of broker 0, default 127.0.0.1:9092. Broker i listens on port+i, and on
	// port+100+i for the second listener. With port 0, each broker listens on a free port.
	Listen string
	// Advertise is the host:port at which clients reach broker 0; "": the address in Listen. The ports
	// of other brokers and of the second listener have the same distances as with Listen.
	Advertise string
	// HTTP is the host:port for metrics, health and the API, default 127.0.0.1:9644; port 0: a free
	// port.
	HTTP string
	// Hosts are the names under which clients may open the HTTP port, in addition to localhost,
	// addresses and the host in HTTP.
	Hosts   []string
	Pprof   bool         // serve profiles on the HTTP port, which must be on a loopback address
	DataDir string       // default heartwood-data
	Racks   []string     // broker i is in Racks[i % len(Racks)]
	Out     io.Writer    // output of one line per topic, and the ready line; default: discards them
	Logger  *slog.Logger // default: discards everything
	// AcceptDataLoss allows unclean elections for partitions whose in-sync replicas have all lost
	// their disks.
	AcceptDataLoss bool
	Processes      bool   // one process per broker, with this binary
	NoRestart      bool   // no restart of a process that has exited
	LogLevel       string // log level of the broker processes; default: warn
	// Level is the level of Logger. The brokers in this process set it to the LogCluster's log level.
	// If Level is nil, the level does not change.
	Level *loglevel.Level
}

// rack returns the rack of broker i, or "" if no racks are set.
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

// parseAddress parses a flag's value without resolving the host. Its errors wrap ErrUsage and name
// the flag.
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

// anyHost reports whether the address means all interfaces.
func (a address) anyHost() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "" || err == nil && ip.IsUnspecified()
}

// loopback reports whether the address is on the loopback interface. localhost is the only host
// name that counts as loopback, because parseAddress does not resolve hosts.
func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "localhost" || err == nil && ip.IsLoopback()
}

// listenerPorts is the distance between the ports of a broker's two listeners.
const listenerPorts = 100

// forBrokers checks that n brokers can listen on the address with the given number of listeners.
func (a address) forBrokers(n, listeners int) error {
	last := a.port + listenerPorts*(listeners-1) + n - 1
	switch {
	case last > 65535:
		return usage(fmt.Errorf("--%s %s: %d brokers need the ports %d to %d; the maximum is 65535",
			a.flag, a, n, a.port, last))
	case listeners > 1 && n > listenerPorts:
		return usage(fmt.Errorf("--%s %s: several listeners allow at most %d brokers", a.flag, a,
			listenerPorts))
	case a.port == 0 && a.anyHost():
		// The broker advertises 127.0.0.1 with the port, so the port must be known before the broker
		// listens.
		return usage(fmt.Errorf("--%s %s: port 0 requires a host", a.flag, a))
	}
	return nil
}

// broker returns broker i's listen address for the listener with the given index, and its
// advertised address if that differs. A broker that listens on all interfaces advertises the
// loopback address, because all clients are local.
func (a address) broker(i, listener int) (listen, advertise string) {
	if a.port != 0 {
		a.port += i + listenerPorts*listener
	}
	listen = a.String()
	if a.anyHost() {
		a.host = a.dialHost()
		advertise = a.String()
	}
	return listen, advertise
}

// dialHost returns the host at which this machine can connect to the address.
func (a address) dialHost() string {
	if a.anyHost() {
		return "127.0.0.1"
	}
	return a.host
}

// parseAdvertise parses the value of --advertise. Parameter listen is the address on which broker 0
// listens.
func parseAdvertise(text string, listen address) (address, error) {
	if text == "" {
		return address{}, nil
	}
	a, err := parseAddress("advertise", text)
	switch {
	case err != nil:
		return a, err
	case a.port == 0 || a.anyHost():
		return a, usage(fmt.Errorf("--advertise %q: want a host and a port that clients can connect "+
			"to, such as kafka.example.com:9092", text))
	case listen.port == 0:
		return a, usage(fmt.Errorf("--advertise %s: --listen needs a port, to which the advertised "+
			"one leads", text))
	}
	return a, nil
}
