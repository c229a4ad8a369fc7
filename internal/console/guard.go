package console

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// contentSecurityPolicy permits only the console's own files. It permits no inline script, no style
// attribute, and no frame around the console.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// guard sets the security headers in every response, and refuses requests that a web page from
// another site may have caused. hosts is the value of Options.Hosts.
func guard(hosts []string, next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protected := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !KnownHost(r.Host, hosts) {
			refuse(w, http.StatusMisdirectedRequest, "The console is not served under the host name "+
				r.Host+". If this name is right, start the console with --allow-host.")
			return
		}
		if CrossSite(r) {
			refuse(w, http.StatusForbidden, "Requests from pages of other sites are refused.")
			return
		}
		protected.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // fails only if the client has disconnected
}

// CrossSite reports whether a page from another site caused the request. A link that the user
// follows does not count, because the other site cannot read the page that it opens.
func CrossSite(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	followed := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
	return !followed
}

// KnownHost reports whether a server may respond to a request with this Host header. The header
// must contain an address, localhost or one of names, which are in lower case. Otherwise a page
// from another site could make its own name resolve to the server's address (DNS rebinding), and
// read the responses as if they came from its own origin. Addresses are accepted, because the
// attack needs a name.
func KnownHost(host string, names []string) bool {
	name := hostName(host)
	if loopbackName(name) || name != "" && slices.Contains(names, name) {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// loopbackHost reports whether the request's Host header is a loopback name or address.
func loopbackHost(r *http.Request) bool { return loopbackName(hostName(r.Host)) }

// proxied reports whether a request has a header that a reverse proxy adds. Such a request may come
// from any user, although the proxy itself connects from this machine.
func proxied(header http.Header) bool {
	for name := range header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip",
			strings.HasPrefix(name, "X-Forwarded-"):
			return true
		}
	}
	return false
}

func loopbackName(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// hostName returns a Host header without the port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
