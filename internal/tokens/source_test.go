package tokens

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/test/kit/jwts"
	"heartwood.dev/heartwood/test/kit/output"
)

const audience = "heartwood/ns/demo"

// keys is a fake issuer. Its keys can change, and it can be unavailable.
type keys struct {
	mu    sync.Mutex
	found Found
	err   error
	reads int
}

func (k *keys) read(context.Context) (Found, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.found, k.err
}

func (k *keys) set(found Found, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found, k.err = found, err
}

func (k *keys) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads
}

// follow runs a Source in a synctest bubble.
func follow(t *testing.T, k *keys) *Source {
	source := New(Options{Read: k.read, Accept: sasl.Issuer{Audience: audience}, Name: "test"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); source.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return source
}

func (s *Source) test(t *testing.T, token string) error {
	t.Helper()
	identity, err := s.Verify(time.Now(), token)
	if err == nil && identity.Name != "alice" {
		t.Errorf("got identity %+v", identity)
	}
	return err
}

func TestKeysAreReadAtTheStartAndEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := jwts.New(t, "https://issuer", "one")
		k := &keys{err: errors.New("unavailable")}
		source := follow(t, k)
		token := issuer.Token("alice", audience, time.Now().Add(24*time.Hour), nil)
		if err := source.test(t, token); !errors.Is(err, sasl.ErrNoKeys) {
			t.Errorf("before the keys are known: got %v", err)
		}
		k.set(Found{Issuer: "https://issuer", JWKS: jwts.JWKS(t, issuer)}, nil)
		time.Sleep(2 * retryFirst)
		synctest.Wait()
		if err := source.test(t, token); err != nil {
			t.Error(err)
		}
		before := k.count()
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if n := k.count() - before; n != 10 {
			t.Errorf("keys were read %d times in 10 h", n)
		}
	})
}

// Trap 9: the issuer is unavailable. Its last keys must remain in use, even for days, and a
// response without keys must not replace them.
func TestTrap9UnavailableIssuerKeepsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := jwts.New(t, "https://issuer", "one")
		k := &keys{found: Found{Issuer: "https://issuer", JWKS: jwts.JWKS(t, issuer)}}
		source := follow(t, k)
		token := issuer.Token("alice", audience, time.Now().Add(99*time.Hour), nil)
		k.set(Found{}, errors.New("unavailable"))
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if err := source.test(t, token); err != nil {
			t.Errorf("while the issuer is unavailable: %v", err)
		}
		k.set(Found{Issuer: "https://issuer", JWKS: []byte(`{"keys":[]}`)}, nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if err := source.test(t, token); err != nil {
			t.Errorf("after an answer without keys: %v", err)
		}
	})
}

// Trap 9: many tokens have unknown key ids. The keys must be read soon after the first one, and
// then at growing intervals until new keys are found.
func TestTrap9StormOfUnknownKeysIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer, next := jwts.New(t, "https://issuer", "one"), jwts.New(t, "https://issuer", "two")
		k := &keys{found: Found{Issuer: "https://issuer", JWKS: jwts.JWKS(t, issuer)}}
		source := follow(t, k)
		token := next.Token("alice", audience, time.Now().Add(24*time.Hour), nil)
		began := time.Now()
		for time.Since(began) < time.Hour-time.Second {
			if err := source.test(t, token); !errors.Is(err, sasl.ErrUnknownKey) {
				t.Fatalf("got %v", err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		// The interval is 10 s, doubled up to 10 min.
		if n := k.count(); n < 5 || n > 14 {
			t.Errorf("keys were read %d times in an hour", n)
		}
		// The issuer has changed its keys. They must be found within the longest interval.
		k.set(Found{Issuer: "https://issuer", JWKS: jwts.JWKS(t, issuer, next)}, nil)
		for began = time.Now(); source.test(t, token) != nil; {
			if time.Since(began) > unknownLongest+time.Second {
				t.Fatal("the new key was not found")
			}
			time.Sleep(time.Second)
		}
		// After that, the next unknown key id causes a read immediately again.
		before := k.count()
		third := jwts.New(t, "https://issuer", "three")
		_ = source.test(t, third.Token("alice", audience, time.Now().Add(time.Hour), nil))
		time.Sleep(unknownFirst + time.Second)
		synctest.Wait()
		if n := k.count() - before; n != 1 {
			t.Errorf("%d reads after a change", n)
		}
	})
}

// TestQuietHourEndsTheSlowdown checks that after many unknown key ids and an hour without any, a
// new key of the issuer is found as soon as before.
func TestQuietHourEndsTheSlowdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer, next := jwts.New(t, "https://issuer", "one"), jwts.New(t, "https://issuer", "two")
		k := &keys{found: Found{Issuer: "https://issuer", JWKS: jwts.JWKS(t, issuer)}}
		source := follow(t, k)
		token := next.Token("alice", audience, time.Now().Add(24*time.Hour), nil)
		for range 3600 {
			_ = source.test(t, token)
			time.Sleep(time.Second)
		}
		time.Sleep(unknownLongest + time.Second)
		for storm, began := k.count(), time.Now(); k.count() == storm; {
			if time.Since(began) > refreshInterval+time.Second {
				t.Fatal("the keys were not read within an hour")
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		before := k.count()
		_ = source.test(t, token)
		time.Sleep(unknownFirst + time.Second)
		synctest.Wait()
		if n := k.count() - before; n != 1 {
			t.Errorf("%d reads soon after the next unknown key id", n)
		}
	})
}

// TestFailureSaysWhetherKeysRemain checks that the log message does not mention previous keys if
// there are none.
func TestFailureSaysWhetherKeysRemain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output.Buffer
		k := &keys{err: errors.New("unavailable")}
		source := New(Options{Read: k.read, Accept: sasl.Issuer{Audience: audience}, Name: "test",
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); source.Run(ctx) }()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "cannot be verified") ||
			strings.Contains(got, "remain in use") {
			t.Errorf("without keys: %s", got)
		}
		k.set(Found{Issuer: "https://issuer",
			JWKS: jwts.JWKS(t, jwts.New(t, "https://issuer", "one"))}, nil)
		time.Sleep(retryLongest)
		k.set(Found{}, errors.New("unavailable"))
		synctest.Wait() // another goroutine writes the log
		before := len(log.String())
		time.Sleep(refreshInterval + time.Minute)
		synctest.Wait()
		if got := log.String()[before:]; !strings.Contains(got, "the previous ones remain in use") {
			t.Errorf("with keys: %s", got)
		}
	})
}

func TestRetriesOfFailedReadsSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keys{err: errors.New("unavailable")}
		follow(t, k)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := k.count(); n < 55 || n > 70 {
			t.Errorf("%d reads in an hour", n)
		}
	})
}

func TestOwnIssuerHasPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := jwts.New(t, "https://issuer", "one")
		source := New(Options{Read: (&keys{found: Found{Issuer: "https://issuer",
			JWKS: jwts.JWKS(t, issuer)}}).read,
			Accept: sasl.Issuer{Issuer: "https://other", Audience: audience}})
		if _, err := source.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if source.test(t, issuer.Token("alice", audience, time.Now().Add(time.Hour), nil)) == nil {
			t.Error("a token of another issuer was accepted")
		}
	})
}

// Trap 9: keys are accepted only from the configured URL (CVE-2025-27817), not with another scheme
// and not after a redirect. Their size is limited.
func TestTrap9KeysComeFromTheConfiguredURLOnly(t *testing.T) {
	for _, bad := range []string{"http://issuer/keys", "file:///etc/passwd", "https://", "", "::"} {
		if _, err := HTTPS(bad, nil); err == nil {
			t.Errorf("URL %q was accepted", bad)
		}
	}
	content := jwts.JWKS(t, jwts.New(t, "https://issuer", "one"))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/keys":
			_, _ = w.Write(content)
		case "/moved":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat(" ", jwksBytesMax+1)))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	read := func(path string) (Found, error) {
		from, err := HTTPS(server.URL+path, func() *x509.CertPool { return roots })
		if err != nil {
			t.Fatal(err)
		}
		return from(t.Context())
	}
	if found, err := read("/keys"); err != nil || !bytes.Equal(found.JWKS, content) {
		t.Errorf("got %s, %v", found.JWKS, err)
	}
	for path, want := range map[string]string{"/moved": "redirects are not followed",
		"/large": "more than", "/missing": "404"} {
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", path, err, want)
		}
	}
	from, err := HTTPS(server.URL+"/keys", nil) // the server's CA is unknown
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from(t.Context()); err == nil {
		t.Error("a server with an unknown CA was accepted")
	}
}
