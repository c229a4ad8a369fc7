package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/remote"
)

// rights is an Authority with a table of the rights that each token has on LogClusters.
type rights struct {
	mu     sync.Mutex // guards table and failed
	table  map[string]map[ClusterName][]Right
	failed error // error of all requests
	asked  atomic.Int32
	clean  string // token and topic of the last request to clean
}

func (a *rights) User(_ context.Context, token string) (string, error) {
	a.asked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.table[token]; !known && a.failed == nil {
		return "", ErrToken
	}
	return "user-of-" + token, a.failed
}

func (a *rights) May(_ context.Context, token string, cluster ClusterName, right Right) (bool,
	error) {
	a.asked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, granted := range a.table[token][cluster] {
		if granted == right {
			return true, a.failed
		}
	}
	return false, a.failed
}

func (a *rights) Clean(_ context.Context, token string, _ ClusterName, topic string) error {
	a.clean = token + " " + topic
	return nil
}

func (a *rights) LogUsers(_ context.Context, _ string, _ ClusterName) ([]LogUser, error) {
	return []LogUser{{Name: "orders", Authentication: "Scram", ACLs: 2, Ready: true}}, nil
}

// change runs a function while no request is being handled.
func (a *rights) change(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

var (
	blue  = ClusterName{"logs", "blue"}
	green = ClusterName{"logs", "green"}
)

// newRights returns an Authority with one user for each tested set of rights.
func newRights() *rights {
	return &rights{table: map[string]map[ClusterName][]Right{
		"none":   {},
		"report": {blue: {ReadReport}},
		"some":   {blue: {ReadReport, CleanSome}},
		"reader": {blue: {ReadReport, ReadRecords}, green: {ReadReport}},
		"admin":  {blue: {ReadReport, ReadRecords, Clean}, green: {ReadReport, ReadRecords, Clean}},
	}}
}

// newTestSite returns a site with two LogClusters whose brokers do not respond.
func newTestSite(t *testing.T, opts SiteOptions) *Site {
	t.Helper()
	opts.List = func(context.Context) ([]Cluster, error) {
		return []Cluster{{ClusterName: green}, {ClusterName: blue}}, nil
	}
	opts.Connect = func(Cluster) (Connection, error) {
		return Connection{Fleet: remote.NewFleet(&remote.Client{}, []string{"127.0.0.1:1"},
			false)}, nil
	}
	s := NewSite(opts)
	t.Cleanup(s.Close)
	return s
}

// ask sends a request to a handler and returns the response.
func ask(t *testing.T, to http.Handler, method, target, body string,
	headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target,
		strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	to.ServeHTTP(recorder, r)
	return recorder
}

const record = "message?topic=t&partition=0&offset=0"

// TestRightsOfUsers checks that every page needs a token and the right to get reports, and that
// records need the right to records. A permitted request fails later: with status 501 if the
// console has no Kafka connection, and with 502 if there are no brokers.
func TestRightsOfUsers(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	for _, test := range []struct {
		token, page string
		status      int
	}{
		{"", "/clusters/logs/blue/topics", 401}, {"wrong", "/clusters/logs/blue/topics", 401},
		{"", "/", 401}, {"", "/clusters/logs/blue/live?topic=t", 401},
		{"none", "/clusters/logs/blue/topics", 403},
		{"none", "/clusters/logs/nothing/topics", 403},
		{"report", "/clusters/logs/blue/topics", 200},
		{"report", "/clusters/logs/green/topics", 403},
		{"report", "/clusters/logs/green/live?topic=t", 403},
		{"report", "/clusters/logs/blue/" + record, 403},
		{"reader", "/clusters/logs/blue/" + record, 501},
		{"reader", "/clusters/logs/green/" + record, 403},
		{"", "/clusters/logs/blue/tail?name=t", 401},
		{"report", "/clusters/logs/blue/tail?name=t", 403},
		{"reader", "/clusters/logs/blue/tail?name=t", 501},
		{"admin", "/clusters/logs/nothing/topics", 403},
		{"", "/healthz", 200}, {"", "/login", 200}, {"", "/assets/console.css", 200},
		{"", "/clusters/logs/blue/assets/console.css", 200},
	} {
		got := ask(t, s, "GET", test.page, "", "Authorization", "Bearer "+test.token)
		if got.Code != test.status {
			t.Errorf("%+v: got status %d: %s", test, got.Code, got.Body)
		}
		if strings.Contains(got.Body.String(), test.token) && len(test.token) > 4 &&
			!strings.Contains(got.Body.String(), "user-of-") {
			t.Errorf("%+v: the page contains the token", test)
		}
	}
}

// TestListContainsPermittedLogClusters checks that users see only the LogClusters whose reports
// they may see, and that the list redirects to the LogCluster if there is only one.
func TestListContainsPermittedLogClusters(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	for token, want := range map[string]string{"none": "no LogCluster", "reader": "green"} {
		got := ask(t, s, "GET", "/", "", "Authorization", "Bearer "+token)
		if got.Code != 200 || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: got status %d: %s", token, got.Code, got.Body)
		}
	}
	got := ask(t, s, "GET", "/", "", "Authorization", "Bearer report")
	if location := got.Header().Get("Location"); got.Code != 303 || location != "clusters/logs/blue/" {
		t.Errorf("got status %d, location %q", got.Code, location)
	}
	if body := ask(t, s, "GET", "/?list=1", "", "Authorization", "Bearer report").Body.String(); strings.Contains(body, "green") || !strings.Contains(body, "blue") {
		t.Errorf("got %s", body)
	}
}

// TestLogin checks that the login page sets a cookie that scripts cannot read and that is not sent
// with requests from other sites, and that logging out removes the cookie.
func TestLogin(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	got := ask(t, s, "GET", "/clusters/logs/blue/topics", "", "Accept", "text/html")
	if location := got.Header().Get("Location"); got.Code != 303 || location != "../../../login" {
		t.Errorf("without a token: got status %d, location %q", got.Code, location)
	}
	for _, bad := range []string{"", "wrong", "two words", "a;b", strings.Repeat("a", 3801)} {
		got := ask(t, s, "POST", "/login", url.Values{"token": {bad}}.Encode())
		if got.Code != 401 || len(got.Result().Cookies()) > 0 {
			t.Errorf("token %.20q: got status %d, cookies %v", bad, got.Code,
				got.Result().Cookies())
		}
	}
	got = ask(t, s, "POST", "/login", "token=+admin%0A")
	cookies := got.Result().Cookies()
	if got.Code != 303 || got.Header().Get("Location") != "./" || len(cookies) != 1 {
		t.Fatalf("got status %d, cookies %v", got.Code, cookies)
	}
	set := cookies[0]
	if !set.HttpOnly || !set.Secure {
		t.Errorf("the cookie is not protected: %v, want HttpOnly and Secure", set)
	}
	if set.SameSite != http.SameSiteStrictMode {
		t.Errorf("requests of other sites carry the cookie: %v, want SameSite=Strict", set)
	}
	if set.Path != "" || set.Domain != "" {
		t.Errorf("the cookie has path %q, domain %q, want neither", set.Path, set.Domain)
	}
	carried := set.Name + "=" + set.Value
	got = ask(t, s, "GET", "/clusters/logs/blue/topics", "", "Cookie", carried)
	if got.Code != 200 || !strings.Contains(got.Body.String(), "user-of-admin") ||
		!strings.Contains(got.Body.String(), `action="../../../logout"`) {
		t.Errorf("with the cookie: got status %d: %s", got.Code, got.Body)
	}
	got = ask(t, s, "POST", "/logout", "", "Cookie", carried)
	if removed := got.Result().Cookies(); got.Code != 303 || len(removed) != 1 ||
		removed[0].MaxAge >= 0 || removed[0].Value != "" {
		t.Errorf("logout: got status %d, cookies %v", got.Code, removed)
	}
	for _, page := range []string{"/login", "/logout", "/clusters/logs/blue/clean"} {
		got = ask(t, s, "POST", page, "token=admin&topic=t", "Cookie", carried, "Sec-Fetch-Site",
			"same-site")
		if got.Code != 403 {
			t.Errorf("%s of another site: got status %d", page, got.Code)
		}
	}
}

// TestHeadSaysWhatTheUserMayClean checks that the page header shows whether the user may clean all
// topics, some topics, or none.
func TestHeadSaysWhatTheUserMayClean(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	for token, want := range map[string]string{"admin": "may clean</p>",
		"some": "may clean some topics</p>", "reader": "read only</p>"} {
		got := ask(t, s, "GET", "/clusters/logs/blue/topics", "", "Authorization", "Bearer "+token)
		if !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: the head lacks %q: %s", token, want, got.Body)
		}
	}
}

// TestHeaderPrecedesCookie checks that the token from an authenticating proxy takes precedence over
// the token in the cookie.
func TestHeaderPrecedesCookie(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	for header, want := range map[string]int{"Bearer none": 403, "bearer  admin": 200,
		"Basic bm9uZTpub25l": 200, "Bearer ": 200, "Bearer wrong": 401} {
		got := ask(t, s, "GET", "/clusters/logs/blue/topics", "", "Authorization", header, "Cookie",
			tokenCookie+"=admin")
		if got.Code != want {
			t.Errorf("%q: got status %d, want %d", header, got.Code, want)
		}
	}
}

// TestCleanIsRequestedByTheCaller checks that a request to clean is sent with the user's token. It
// must be sent to the API server even if the user may not patch every topic, because the API server
// decides.
func TestCleanIsRequestedByTheCaller(t *testing.T) {
	authority := newRights()
	s := newTestSite(t, SiteOptions{Authority: authority})
	for _, token := range []string{"admin", "reader"} {
		got := ask(t, s, "POST", "/clusters/logs/blue/clean", "topic=tickets", "Authorization",
			"Bearer "+token)
		if got.Code != 303 || authority.clean != token+" tickets" {
			t.Errorf("%s: got status %d, request %q", token, got.Code, authority.clean)
		}
	}
	authority.clean = ""
	for _, token := range []string{"none", "", "wrong"} {
		got := ask(t, s, "POST", "/clusters/logs/blue/clean", "topic=tickets", "Authorization",
			"Bearer "+token)
		if (got.Code != 403 && got.Code != 401) || authority.clean != "" {
			t.Errorf("%s: got status %d, request %q", token, got.Code, authority.clean)
		}
	}
}

// TestSiteWithoutAuthority checks a site that does not listen on loopback. Everyone may see
// reports, but nobody may see records or clean.
func TestSiteWithoutAuthority(t *testing.T) {
	s := newTestSite(t, SiteOptions{})
	for page, want := range map[string]int{"/": 200, "/clusters/logs/blue/topics": 200,
		"/clusters/logs/blue/" + record: 403, "/login": 404, "/clusters/logs/nothing/": 404,
		"/clusters/logs/blue": 303} {
		if got := ask(t, s, "GET", page, ""); got.Code != want {
			t.Errorf("%s: got status %d, want %d", page, got.Code, want)
		}
	}
	if got := ask(t, s, "POST", "/clusters/logs/blue/clean", "topic=t"); got.Code != 403 {
		t.Errorf("clean: got status %d", got.Code)
	}
}

// TestConsolesFollowTheirLogCluster checks that a console is closed when its LogCluster's version
// changes, when its LogCluster is deleted, and when it is idle.
func TestConsolesFollowTheirLogCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version, gone, connected := "1", false, 0
		s := NewSite(SiteOptions{
			List: func(context.Context) ([]Cluster, error) {
				if gone {
					return nil, nil
				}
				return []Cluster{{ClusterName: blue, Version: version}}, nil
			},
			Connect: func(Cluster) (Connection, error) {
				connected++
				return Connection{Fleet: remote.NewFleet(&remote.Client{}, []string{"127.0.0.1:1"},
					false)}, nil
			},
		})
		defer s.Close()
		check := func(step string, status, connections int) {
			t.Helper()
			got := ask(t, s, "GET", "/clusters/logs/blue/clean?topic=", "")
			if got.Code != status || connected != connections {
				t.Errorf("%s: got status %d and %d connections, want %d and %d", step, got.Code,
					connected, status, connections)
			}
		}
		check("opened", 502, 1)
		version = "2"
		check("the list is still used", 502, 1)
		time.Sleep(clustersTTL)
		check("the version has changed", 502, 2)
		time.Sleep(siteIdle + time.Second)
		check("nobody used it", 502, 3)
		gone = true
		time.Sleep(clustersTTL)
		check("the LogCluster is gone", 404, 3)
	})
}

// TestReviewsAreCached checks that equal questions cause one request per reviewTTL, that the
// answers for one token are never used for another, and that failures are not cached.
func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := newRights()
		r := newReviews(authority)
		may := func(token string, right Right, want bool, asked int32) {
			t.Helper()
			got, err := r.May(t.Context(), token, blue, right)
			if err != nil || got != want || authority.asked.Load() != asked {
				t.Errorf("%s %d: got %t, %v after %d requests, want %t after %d", token, right, got,
					err, authority.asked.Load(), want, asked)
			}
		}
		may("admin", Clean, true, 1)
		may("admin", Clean, true, 1)
		may("report", Clean, false, 2)
		may("report", Clean, false, 2)
		may("admin", ReadReport, true, 3)
		delete(authority.table, "admin")
		time.Sleep(reviewTTL - time.Second)
		may("admin", Clean, true, 3)
		time.Sleep(time.Second)
		may("admin", Clean, false, 4)
		for range 2 {
			if _, err := r.User(t.Context(), "admin"); !errors.Is(err, ErrToken) {
				t.Errorf("got %v, want ErrToken", err)
			}
		}
		if got := authority.asked.Load(); got != 5 {
			t.Errorf("got %d requests, want 5: refused tokens are cached", got)
		}
		authority.failed = errors.New("unavailable")
		for range 2 {
			if _, err := r.May(t.Context(), "reader", blue, ReadReport); err == nil {
				t.Error("a failure became an answer")
			}
		}
		if got := authority.asked.Load(); got != 7 {
			t.Errorf("got %d requests, want 7: failures are not cached", got)
		}
	})
}

// TestReviewsAreBounded checks that many invalid tokens do not fill the memory.
func TestReviewsAreBounded(t *testing.T) {
	r := newReviews(newRights())
	for i := range 2*reviewsMax + 1 {
		_, _ = r.User(t.Context(), strings.Repeat("a", i+1))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.mu.answers); n == 0 || n > reviewsMax {
		t.Errorf("got %d cached answers, want 1 to %d", n, reviewsMax)
	}
}

// TestStreamsEndWithTheRight checks that a stream of updates ends within reviewTTL after the right
// to see reports has been revoked, but not because the API server is unavailable.
func TestStreamsEndWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := newRights()
		c := New(Options{Authority: authority, LogCluster: blue,
			Fleet: remote.NewFleet(&remote.Client{}, []string{"127.0.0.1:1"}, false)})
		defer c.Close()
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callerKey{},
			caller{token: "report"}), "GET", "/live", http.NoBody)
		ctx, stop := c.whilePermitted(r, ReadReport)
		defer stop()
		authority.change(func() { authority.failed = errors.New("unavailable") })
		time.Sleep(3 * reviewTTL)
		if synctest.Wait(); ctx.Err() != nil {
			t.Error("the stream ended while the API server was unavailable")
		}
		authority.change(func() {
			authority.failed = nil
			delete(authority.table, "report")
		})
		time.Sleep(reviewTTL + time.Second)
		if synctest.Wait(); ctx.Err() == nil {
			t.Error("the stream survived its right")
		}
	})
}
