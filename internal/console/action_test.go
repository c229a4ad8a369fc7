package console

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// writes contains the requests that change something, with the rights that they need.
var writes = map[string]Right{"produce?topic=t": WriteRecords, "offsets?group=g": WriteGroups,
	"deletegroup?group=g": WriteGroups, "abort?id=a": Abort}

// TestWritesNeedTheirRight checks that the API server authorizes the caller before anything is sent
// to a broker. A permitted request fails later: with status 501 if the console has no Kafka
// connection, and with 409 or 502 if there are no brokers.
func TestWritesNeedTheirRight(t *testing.T) {
	for path, right := range writes {
		authority := newRights() // a new site, because decisions are cached
		s := newTestSite(t, SiteOptions{Authority: authority})
		page, form, _ := strings.Cut(path, "?")
		authority.table["writer"] = map[ClusterName][]Right{blue: {ReadReport, right}}
		authority.table["other"] = map[ClusterName][]Right{blue: {ReadReport, ReadRecords, Clean,
			CleanSome}}
		for other := WriteRecords; other <= ListUsers; other++ {
			if other != right {
				authority.table["other"][blue] = append(authority.table["other"][blue], other)
			}
		}
		for token, beyond := range map[string]bool{"writer": true, "other": false} {
			got := ask(t, s, "POST", "/clusters/logs/blue/"+page, form, "Authorization",
				"Bearer "+token)
			if refused := got.Code == 403; refused == beyond || !beyond &&
				!strings.Contains(got.Body.String(), rightTexts[right]) {
				t.Errorf("%s of %s: got status %d: %s", path, token, got.Code, got.Body)
			}
		}
	}
}

// TestFormsSayWhyTheyAreRefused checks that a user without the right sees the reason instead of the
// form.
func TestFormsSayWhyTheyAreRefused(t *testing.T) {
	s := newTestSite(t, SiteOptions{Authority: newRights()})
	for path, right := range map[string]Right{"produce?topic=t": WriteRecords, "abort?id=a": Abort} {
		got := ask(t, s, "GET", "/clusters/logs/blue/"+path, "", "Authorization", "Bearer reader")
		if got.Code != 200 || strings.Contains(got.Body.String(), "<button class=\"primary\"") ||
			!strings.Contains(got.Body.String(), "user-of-reader may not "+rightTexts[right]) {
			t.Errorf("%s: got status %d: %s", path, got.Code, got.Body)
		}
	}
}

// TestUsersNeedTheirRight checks that only a user with the right to list LogUsers sees them. They
// are read from the API server.
func TestUsersNeedTheirRight(t *testing.T) {
	authority := newRights()
	authority.table["lister"] = map[ClusterName][]Right{blue: {ReadReport, ListUsers}}
	s := newTestSite(t, SiteOptions{Authority: authority})
	for token, want := range map[string]int{"lister": 200, "reader": 403} {
		got := ask(t, s, "GET", "/clusters/logs/blue/users", "", "Authorization", "Bearer "+token)
		if got.Code != want || strings.Contains(got.Body.String(), ">orders<") != (want == 200) {
			t.Errorf("%s: got status %d: %s", token, got.Code, got.Body)
		}
	}
}

// TestWritesNeedLoopback checks that a console without an Authority accepts writes only from this
// machine.
func TestWritesNeedLoopback(t *testing.T) {
	for path := range writes {
		page, form, _ := strings.Cut(path, "?")
		for host, headers := range map[string][]string{"remote": nil, "proxy": {"Via", "1.1 a"}} {
			c := unreachable(Options{Loopback: host != "remote"})
			got := ask(t, c, "POST", "/"+page, form, headers...)
			if got.Code != 403 || !strings.Contains(got.Body.String(), "loopback") {
				t.Errorf("%s, %s: got status %d: %s", path, host, got.Code, got.Body)
			}
		}
		if got := ask(t, unreachable(Options{Loopback: true}), "POST", "/"+page, form); got.Code ==
			403 {
			t.Errorf("%s of a user of this machine: got status 403: %s", path, got.Body)
		}
	}
	for _, page := range []string{"users", "download?name=t"} {
		if got := ask(t, unreachable(Options{}), "GET", "/"+page, ""); got.Code != 403 {
			t.Errorf("%s: got status %d", page, got.Code)
		}
	}
}

// TestChangesAreLogged checks that the audit log contains the change, its user and its subject.
func TestChangesAreLogged(t *testing.T) {
	authority := newRights()
	authority.table["writer"] = map[ClusterName][]Right{blue: {ReadReport, WriteGroups}}
	var log bytes.Buffer
	s := newTestSite(t, SiteOptions{Authority: authority,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for token, want := range map[string]string{
		"writer": `audit=true change="change offsets" user=user-of-writer`,
		"reader": `audit=true change="change offsets" user=user-of-reader`} {
		log.Reset()
		ask(t, s, "POST", "/clusters/logs/blue/offsets", "group=readers&to=earliest",
			"Authorization", "Bearer "+token)
		if got := log.String(); !strings.Contains(got, want) ||
			!strings.Contains(got, "accepted=false") || !strings.Contains(got, "logs/blue") ||
			strings.Contains(got, "group=readers to=earliest") != (token == "writer") {
			t.Errorf("%s: got %s", token, got)
		}
	}
}
