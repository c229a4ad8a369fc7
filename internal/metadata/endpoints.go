package metadata

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// DefaultListener is the name of a broker's listener if the broker has only one. If none of a
// broker's listeners has this name, the address of the first listener is also registered under it.
const DefaultListener = "kafka"

// Endpoint is the address of a listener, to which clients connect.
type Endpoint struct {
	Host string
	Port int32
}

// ParseEndpoint parses host:port. It fails if the host is empty or the port is not 1 to 65535.
func ParseEndpoint(text string) (Endpoint, error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return Endpoint{}, fmt.Errorf("parse endpoint %q: %w", text, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 || host == "" {
		return Endpoint{}, fmt.Errorf(
			"parse endpoint %q: want host:port with a port from 1 to 65535", text)
	}
	return Endpoint{Host: host, Port: int32(port)}, nil
}

// String returns the endpoint as host:port.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Endpoints contains a broker's endpoints by listener name. It is a string and not a map, so that
// Broker remains comparable: metadata stores and fetchers use == to detect a changed broker.
type Endpoints string

// NewEndpoints returns the given endpoints. A listener name must not contain "," or "://".
func NewEndpoints(byListener map[string]Endpoint) Endpoints {
	entries := make([]string, 0, len(byListener))
	for _, listener := range slices.Sorted(maps.Keys(byListener)) {
		entries = append(entries, listener+"://"+byListener[listener].String())
	}
	return Endpoints(strings.Join(entries, ","))
}

// On returns the endpoint of a listener. ok is false if there is none.
func (e Endpoints) On(listener string) (endpoint Endpoint, ok bool) {
	for entry := range strings.SplitSeq(string(e), ",") {
		name, address, found := strings.Cut(entry, "://")
		if !found || name != listener {
			continue
		}
		endpoint, err := ParseEndpoint(address)
		return endpoint, err == nil
	}
	return Endpoint{}, false
}
