package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// consolePath is the path of the console on the HTTP port.
const consolePath = "/console/"

// newConsole returns the cluster's console. The console connects to the brokers like any client:
// over the Kafka protocol, and over HTTP at httpAddress or, with --processes, at each process's
// port.
func (c *cluster) newConsole(httpAddress string) *console.Console {
	return console.New(console.Options{
		Cluster:  c.initial.clusterName(),
		Fleet:    remote.NewFleet(&remote.Client{}, c.httpAddresses(httpAddress), false),
		Kafka:    c.consoleKafka,
		Loopback: c.http.loopback(),
		Hosts:    c.opts.Hosts,
		Logger:   c.opts.Logger,
	})
}

// httpAddresses returns the addresses at which the brokers serve HTTP. With --processes and a port
// that the system chooses, the brokers serve no HTTP. Then httpAddresses returns this process's
// address, whose response says that.
func (c *cluster) httpAddresses(own string) (addresses []string) {
	if !c.opts.Processes || c.http.port == 0 {
		_, port, _ := net.SplitHostPort(own) // cannot fail for the address of a listener
		return []string{net.JoinHostPort(c.http.dialHost(), port)}
	}
	for i := range c.store.Running() {
		addresses = append(addresses, net.JoinHostPort(c.http.dialHost(), strconv.Itoa(c.http.port+1+i)))
	}
	return addresses
}

// consoleKafka connects the console to the brokers.
func (c *cluster) consoleKafka() (*kafka.Client, error) {
	listener := &c.initial.listeners()[0]
	if listener.TLS != nil || len(listener.Authentication) > 0 {
		return nil, fmt.Errorf("the listeners of this cluster need credentials, which this console "+
			"does not have: run heartwood console --address %s --user-dir %s", c.http,
			filepath.Join(c.opts.DataDir, usersDir, "USER"))
	}
	bootstrap := c.bootstrap(listener.Name)
	if len(bootstrap) == 0 {
		return nil, errors.New("the brokers are starting")
	}
	return kafka.New(bootstrap, kafka.Through(c.dialBroker))
}

// dialBroker connects to a broker's endpoint in the metadata that clients receive. The broker may
// listen on another port: with --advertise, the endpoint can be one outside a container.
func (c *cluster) dialBroker(ctx context.Context, network, endpoint string) (net.Conn, error) {
	var dialer net.Dialer
	for i := range c.store.Running() {
		if outside, _ := c.advertise.broker(i, 0); outside == endpoint && c.advertise.port != 0 {
			address := c.listen
			address.host = address.dialHost()
			endpoint, _ = address.broker(i, 0)
			break
		}
	}
	return dialer.DialContext(ctx, network, endpoint)
}

// withConsole serves the console below consolePath, and passes all other requests to next. It
// redirects a browser that opens the root to the console.
func withConsole(pages http.Handler, next http.Handler) http.Handler {
	stripped := http.StripPrefix(strings.TrimSuffix(consolePath, "/"), pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, consolePath):
			stripped.ServeHTTP(w, r)
		case r.Method == http.MethodGet && (r.URL.Path+"/" == consolePath ||
			r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")):
			// A relative location also works behind a proxy that removes a prefix of the path.
			w.Header().Set("Location", "./console/")
			w.WriteHeader(http.StatusSeeOther)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
