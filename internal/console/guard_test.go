package console

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/remote"
)

// request sends a request with the given headers (name, value, ...) to a console and returns the
// response.
func request(t *testing.T, c *Console, method, url string,
	headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, r)
	return recorder
}

// unreachable returns a console whose broker does not respond.
func unreachable(opts Options) *Console {
	opts.Fleet = remote.NewFleet(&remote.Client{}, []string{"127.0.0.1:1"}, false)
	return New(opts)
}

// TestHostsAreChecked checks that a page from another site cannot read the console by making its
// own name resolve to the console's address (DNS rebinding).
func TestHostsAreChecked(t *testing.T) {
	c := unreachable(Options{Loopback: true, Hosts: []string{"console.example.com"}})
	for host, known := range map[string]bool{
		"localhost:9644": true, "127.0.0.1:9644": true, "[::1]:9644": true, "[::1]": true,
		"10.1.2.3": true, "console.example.com": true, "CONSOLE.example.com.:80": true,
		"evil.example.com": false, "evil.example.com:9644": false, "localhost.evil.com": false,
		"": false, "127.0.0.1.nip.io": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/assets/console.css", http.NoBody)
		r.Host = host
		recorder := httptest.NewRecorder()
		c.ServeHTTP(recorder, r)
		want := http.StatusMisdirectedRequest
		if known {
			want = http.StatusOK
		}
		if recorder.Code != want {
			t.Errorf("host %q: got status %d, want %d", host, recorder.Code, want)
		}
	}
}

// TestOtherSitesGetNothing checks that requests from other sites are refused, except links that the
// user follows.
func TestOtherSitesGetNothing(t *testing.T) {
	c := unreachable(Options{Loopback: true})
	for _, test := range []struct {
		method, site, mode, dest string
		allowed                  bool
	}{
		{"GET", "same-origin", "cors", "empty", true},
		{"GET", "none", "navigate", "document", true},
		{"GET", "", "", "", true},
		{"GET", "cross-site", "navigate", "document", true},
		{"GET", "cross-site", "navigate", "iframe", false},
		{"GET", "cross-site", "no-cors", "script", false},
		{"GET", "cross-site", "cors", "empty", false},
		{"POST", "cross-site", "navigate", "document", false},
		{"POST", "same-site", "navigate", "document", false},
	} {
		got := request(t, c, test.method, "http://localhost/assets/console.css", "Sec-Fetch-Site",
			test.site, "Sec-Fetch-Mode", test.mode, "Sec-Fetch-Dest", test.dest)
		if (got.Code != http.StatusForbidden) != test.allowed {
			t.Errorf("%+v: got status %d", test, got.Code)
		}
	}
}

func TestEveryResponseHasSecurityHeaders(t *testing.T) {
	c := unreachable(Options{Loopback: true})
	for url, host := range map[string]string{"/": "localhost", "/nothing": "localhost",
		"/assets/console.js": "localhost", "/topics": "evil.example.com"} {
		header := request(t, c, "GET", "http://"+host+url).Header()
		for name, part := range map[string]string{"Content-Security-Policy": "default-src 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer"} {
			if !strings.Contains(header.Get(name), part) {
				t.Errorf("%s: got %s: %q, want %q", url, name, header.Get(name), part)
			}
		}
		for _, unsafe := range []string{"unsafe", "data:", "*"} {
			if strings.Contains(header.Get("Content-Security-Policy"), unsafe) {
				t.Errorf("%s: the policy contains %s", url, unsafe)
			}
		}
	}
}

// TestMessagesNeedLoopback checks that a console that is reachable from other machines shows no
// messages, because it does not authenticate its users.
func TestMessagesNeedLoopback(t *testing.T) {
	for _, test := range []struct {
		loopback bool
		host     string
		may      bool
	}{{true, "localhost", true}, {true, "127.0.0.1:9644", true}, {true, "10.1.2.3", false},
		{false, "localhost", false}, {false, "10.1.2.3", false}} {
		c := unreachable(Options{Loopback: test.loopback})
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://"+test.host+"/", http.NoBody)
		if got := c.writesOf(r) == "may clean" && c.mayRead(r) == nil; got != test.may {
			t.Errorf("%+v: got %t", test, got)
		}
		if got := request(t, c, "GET", "http://"+test.host+"/message?topic=t&partition=0&offset=0"); !test.may &&
			got.Code != http.StatusForbidden {
			t.Errorf("%+v: the page of a record has status %d", test, got.Code)
		}
	}
}

// TestMessagesAreNotForProxies checks that requests through a reverse proxy on this machine get no
// messages. The proxy connects from a loopback address, but any user may be able to reach it.
func TestMessagesAreNotForProxies(t *testing.T) {
	for _, test := range []struct {
		opts   Options
		header string
		may    bool
	}{{Options{}, "", true}, {Options{}, "Accept", true}, {Options{}, "Forwarded", false},
		{Options{}, "Via", false}, {Options{}, "X-Real-IP", false},
		{Options{}, "X-Forwarded-For", false}, {Options{}, "x-forwarded-proto", false},
		{Options{Hosts: []string{"console.example.com"}}, "", false},
		{Options{PathPrefix: "/heartwood"}, "", false}} {
		test.opts.Loopback = true
		c := unreachable(test.opts)
		for _, page := range []string{"GET /message?topic=t&partition=0&offset=0", "POST /clean"} {
			method, path, _ := strings.Cut(page, " ")
			headers := []string{}
			if test.header != "" {
				headers = append(headers, test.header, "a")
			}
			got := request(t, c, method, "http://localhost"+path, headers...)
			if may := got.Code != http.StatusForbidden; may != test.may {
				t.Errorf("%+v: %s: got status %d", test, page, got.Code)
			}
		}
	}
}

// TestPathPrefix checks that a proxy may keep or remove the path prefix.
func TestPathPrefix(t *testing.T) {
	c := unreachable(Options{Loopback: true, PathPrefix: "/team/heartwood/"})
	for url, want := range map[string]int{"/team/heartwood/assets/console.css": 200,
		"/assets/console.css": 200, "/team/heartwood/": 200, "/team/heartwood": 303,
		"/team/heartwoodx/": 404} {
		got := request(t, c, "GET", "http://localhost"+url)
		if got.Code != want {
			t.Errorf("%s: got status %d, want %d", url, got.Code, want)
		}
		if want == 303 && got.Header().Get("Location") != "heartwood/" {
			t.Errorf("%s: got location %q", url, got.Header().Get("Location"))
		}
	}
}

var (
	styleSheet = regexp.MustCompile(`<link rel="stylesheet" href="([^"]+)"`)
	pageLink   = regexp.MustCompile(`<a href="([^"]+)">Topics<`)
)

// TestUnknownPathsHaveStyles checks that the links to the style sheet and to other pages work on
// the page for an unknown path: at any depth, below a prefix, and in a console with several
// LogClusters.
func TestUnknownPathsHaveStyles(t *testing.T) {
	one := unreachable(Options{Loopback: true, PathPrefix: "/team/heartwood"})
	several := newTestSite(t, SiteOptions{Prefix: "/team"})
	for _, test := range []struct {
		to   http.Handler
		root string
		page bool // true for a page that contains links to pages
	}{{one, "/", true}, {one, "/team/heartwood/", true}, {several, "/", false},
		{several, "/team/", false}, {several, "/clusters/logs/blue/", true},
		{several, "/team/clusters/logs/blue/", true},
		{several, "/clusters/logs/nothing/", false}} {
		for _, path := range []string{"a", "a/", "a/b", "a/b/c/d", "a%2Fb/c", "a//b", "a/%2F/b"} {
			got := ask(t, test.to, "GET", test.root+path, "")
			if got.Code != http.StatusNotFound {
				t.Errorf("%s%s: got status %d, location %q", test.root, path, got.Code,
					got.Header().Get("Location"))
				continue
			}
			expectLink(t, test.to, test.root+path, styleSheet.FindStringSubmatch(got.Body.String()))
			empty := strings.Contains(path, "//") || strings.Contains(path, "/%2F")
			if test.page && (test.to == one || !empty) { // here the site itself responds, without links
				expectLink(t, test.to, test.root+path, pageLink.FindStringSubmatch(got.Body.String()))
			}
		}
	}
}

// expectLink fails the test if the page does not contain the link, or if the link leads to an
// error.
func expectLink(t *testing.T, to http.Handler, page string, link []string) {
	t.Helper()
	from, err := url.Parse("http://localhost" + page)
	if err != nil || link == nil {
		t.Errorf("%s: no link, %v", page, err)
		return
	}
	target, err := from.Parse(html.UnescapeString(link[1]))
	if err != nil {
		t.Errorf("%s: link %q: %v", page, link[1], err)
		return
	}
	if got := ask(t, to, "GET", target.RequestURI(), ""); got.Code != http.StatusOK {
		t.Errorf("%s: link %q to %s: got status %d", page, link[1], target, got.Code)
	}
}
