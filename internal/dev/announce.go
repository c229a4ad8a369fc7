package dev

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
)

// announceSecurity writes the files of all users, and prints a line for each listener and user.
func (c *cluster) announceSecurity(s *state) {
	c.warnIgnored(s)
	if c.security == nil {
		return
	}
	for _, l := range s.listeners() {
		c.print(fmt.Sprintf("listener %s bootstrap=%s security=%s", l.Name,
			strings.Join(c.bootstrap(l.Name), ","), securityOf(&l)))
	}
	if err := c.writeUsers(s); err != nil {
		c.report(err)
	}
}

// bootstrap returns the addresses of all brokers at a listener.
func (c *cluster) bootstrap(listener string) (addresses []string) {
	for _, b := range c.store.Image().Brokers {
		if endpoint, ok := b.Endpoints.On(listener); ok {
			addresses = append(addresses, endpoint.String())
		}
	}
	return addresses
}

// securityOf returns a listener's security protocol and its SASL mechanisms.
func securityOf(l *v1alpha1.Listener) string {
	var mechanisms []string
	for i := range l.Authentication {
		switch l.Authentication[i].Type {
		case v1alpha1.AuthenticationScramSha256:
			mechanisms = append(mechanisms, v1alpha1.ScramSha256)
		case v1alpha1.AuthenticationScramSha512:
			mechanisms = append(mechanisms, v1alpha1.ScramSha512)
		case v1alpha1.AuthenticationOAuthBearer:
			mechanisms = append(mechanisms, v1alpha1.OAuthBearer)
		}
	}
	protocol := "PLAINTEXT"
	if l.TLS != nil {
		protocol = "SSL"
	}
	if len(mechanisms) == 0 {
		return protocol
	}
	return "SASL_" + protocol + " mechanisms=" + strings.Join(mechanisms, ",")
}

// writeUsers writes the files of users that have changed, and prints the line of each user whose
// line has changed.
func (c *cluster) writeUsers(s *state) error {
	if c.security == nil {
		return nil
	}
	var faults []error
	for _, u := range s.users {
		line, err := c.writeUser(s, u)
		if err != nil {
			faults = append(faults, fmt.Errorf("LogUser/%s: %w", u.Name, err))
			continue
		}
		if c.announced[u.Name] != line {
			c.announced[u.Name] = line
			c.print(line)
		}
	}
	return errors.Join(faults...)
}

// writeUser writes a user's files and returns the user's line.
func (c *cluster) writeUser(s *state, u *v1alpha1.LogUser) (string, error) {
	kind := u.Spec.Authentication.Type
	line := fmt.Sprintf("user %s authentication=%s acls=%d", u.PrincipalName(), kind,
		len(u.Spec.ACLs))
	if kind != v1alpha1.UserScram && kind != v1alpha1.UserTLS {
		return line, nil
	}
	index, mechanism := listenerOf(s.listeners(), kind)
	endpoint := credentials.Endpoint{Mechanism: mechanism}
	if index >= 0 {
		l := &s.listeners()[index]
		endpoint.TLS = l.TLS != nil
		endpoint.Bootstrap = strings.Join(c.bootstrap(l.Name), ",")
		line += " listener=" + l.Name
	}
	dir, err := c.security.writeUser(u, endpoint)
	return line + " files=" + dir, err
}

// listenerOf returns the index of a listener that authenticates the user, and the SASL mechanism.
// The index is -1 if no listener authenticates users of this type.
func listenerOf(listeners v1alpha1.Listeners,
	kind v1alpha1.UserAuthenticationType) (index int, mechanism string) {
	for i := range listeners {
		for _, a := range slices.Backward(listeners[i].Authentication) {
			switch {
			case kind == v1alpha1.UserTLS && a.Type == v1alpha1.AuthenticationTLS &&
				len(a.ClientCAs) == 0:
				return i, ""
			case kind == v1alpha1.UserScram && a.Type == v1alpha1.AuthenticationScramSha512:
				return i, v1alpha1.ScramSha512
			case kind == v1alpha1.UserScram && mechanism == "" &&
				a.Type == v1alpha1.AuthenticationScramSha256:
				index, mechanism = i, v1alpha1.ScramSha256
			}
		}
	}
	if mechanism == "" {
		return -1, ""
	}
	return index, mechanism
}

// renew replaces certificates that expire soon.
func (c *cluster) renew() {
	if c.security == nil {
		return
	}
	if err := errors.Join(c.security.stepAuthorities(),
		c.security.update(c.initial.listeners()), c.writeUsers(&c.current)); err != nil {
		c.opts.Logger.Error("failed to renew certificates", "error", err)
	}
}
