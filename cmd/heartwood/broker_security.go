package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/broker"
)

// clientListeners returns the listeners given by --listeners, or nil without that flag. All of them
// listen on the host of --listen and advertise the host of --advertise. On Kubernetes, the operator
// writes other advertised addresses into the broker's Lease.
func (f *brokerFlags) clientListeners() ([]broker.Listener, error) {
	if f.listeners == "" {
		return nil, nil
	}
	var listeners v1alpha1.Listeners
	if err := json.Unmarshal([]byte(f.listeners), &listeners); err != nil {
		return nil, fmt.Errorf("invalid argument for --listeners: %w", err)
	}
	if len(listeners) == 0 {
		return nil, errors.New("invalid argument for --listeners: give at least one listener")
	}
	host, _, err := net.SplitHostPort(f.advertise)
	if err != nil {
		return nil, fmt.Errorf("invalid argument %q for --advertise: %w", f.advertise, err)
	}
	own, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, fmt.Errorf("invalid argument %q for --listen: %w", f.listen, err)
	}
	var all []broker.Listener
	for i := range listeners {
		port := strconv.Itoa(int(listeners[i].Port))
		all = append(all, broker.ListenerOf(&listeners[i], net.JoinHostPort(own, port),
			net.JoinHostPort(host, port)))
	}
	return all, nil
}

// passwords reports whether any listener authenticates users by password.
func passwords(listeners []broker.Listener) bool {
	return slices.ContainsFunc(listeners, func(l broker.Listener) bool {
		return slices.ContainsFunc(l.Authentication, func(a v1alpha1.Authentication) bool {
			return a.Type == v1alpha1.AuthenticationScramSha256 ||
				a.Type == v1alpha1.AuthenticationScramSha512
		})
	})
}

// certificateFiles returns the certificates in the directory --certificates, or nil without this
// flag.
func (f *brokerFlags) certificateFiles(node int32, listeners []broker.Listener,
	logger *slog.Logger) *broker.CertificateFiles {
	if f.certificates == "" {
		return nil
	}
	files := &broker.CertificateFiles{Dir: f.certificates, Broker: node, Logger: logger,
		Certificates: broker.NewCertificates()}
	for i := range listeners {
		files.Listeners = append(files.Listeners, listeners[i].Name)
	}
	return files
}
