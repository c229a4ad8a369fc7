package dev

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestGuard checks that a page from another site can neither read the API by DNS rebinding nor send
// requests to it.
func TestGuard(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	handler := guard(address{host: "Devbox", port: 9644}, []string{"compose.example"}, served)
	for _, test := range []struct {
		host, site string
		want       int
	}{
		{"localhost:9644", "", http.StatusNoContent},
		{"127.0.0.1:9644", "same-origin", http.StatusNoContent},
		{"[::1]:9644", "", http.StatusNoContent},
		{"devbox:9644", "", http.StatusNoContent},
		{"COMPOSE.example:80", "", http.StatusNoContent},
		{"evil.example:9644", "", http.StatusMisdirectedRequest},
		{"evil.example:9644", "same-origin", http.StatusMisdirectedRequest},
		{"", "", http.StatusMisdirectedRequest},
		{"localhost:9644", "cross-site", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/topics/t/keys", http.NoBody)
		r.Host = test.host
		r.Header.Set("Sec-Fetch-Site", test.site)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		if recorder.Code != test.want {
			t.Errorf("%+v: got status %d", test, recorder.Code)
		}
	}
}

// TestRecordsNeedLoopback checks that other machines receive no records, because the port has no
// authentication.
func TestRecordsNeedLoopback(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	for _, test := range []struct {
		host, path string
		want       int
	}{
		{"127.0.0.1", "/api/v1/topics/t/keys?key=YQ", http.StatusNoContent},
		{"0.0.0.0", "/api/v1/topics/t/keys?key=YQ", http.StatusForbidden},
		{"", "/api/v1/topics/a%2Fb/keys?key=YQ", http.StatusForbidden},
		{"10.1.2.3", "/api/v1/topics", http.StatusNoContent},
		{"10.1.2.3", "/metrics", http.StatusNoContent},
	} {
		recorder := httptest.NewRecorder()
		withoutRecords(address{host: test.host}, served).ServeHTTP(recorder,
			httptest.NewRequestWithContext(t.Context(), "GET", test.path, http.NoBody))
		if recorder.Code != test.want {
			t.Errorf("%+v: got status %d", test, recorder.Code)
		}
	}
}

// TestServedHosts checks that the HTTP port of a running cluster checks the host name.
func TestServedHosts(t *testing.T) {
	c := start(t, options(t))
	for host, want := range map[string]int{"": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), "GET",
			c.ready["http"]+"/api/v1/partitions", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host // "": the host in the URL
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("host %q: got status %d, want %d", host, response.StatusCode, want)
		}
	}
}
