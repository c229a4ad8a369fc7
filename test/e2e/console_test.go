//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// browser sends requests to the console at an address, like a browser after a login.
type browser struct {
	t         *testing.T
	address   string // without the trailing slash
	transport http.RoundTripper
	cookie    string
}

// console checks that the console shows the LogClusters only to users with permissions, through a
// forwarded port and through the API server's service proxy. Requests to clean use the user's
// permissions. The records of the secured LogCluster are read with the token of the console's
// ServiceAccount.
func (e *environment) console(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/secured.yaml")
	defer e.kubectl(t, "delete", "-f", "test/e2e/testdata/secured.yaml", "--wait=false")
	e.installConsole(t)
	e.waitSecured(t)
	produce := e.adminPlugin(t, "allowed-key\tshown in the console\n", "produce", "allowed",
		"-K", "\t", "--user", "writer", "--cluster", securedCluster, "--listener", "inside")
	t.Logf("produce to the secured LogCluster: %s", produce)

	user := strings.TrimSpace(e.kubectl(t, "create", "token", "console-user"))
	nobody := strings.TrimSpace(e.kubectl(t, "create", "token", "console-nobody"))
	for name, open := range e.consoleDoors(t) {
		t.Run(name, func(t *testing.T) {
			e.checkNobody(open(t), nobody)
			reader := open(t)
			reader.login(user)
			e.checkConsole(reader)
		})
	}
	e.checkCompacted(t, "ledger")
}

// installConsole upgrades the chart with the console enabled, and creates the console's users.
func (e *environment) installConsole(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("testdata/console.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), strings.ReplaceAll(string(manifest), "NAMESPACE",
		e.namespace), "kubectl", "--namespace", e.namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t.Context(), "upgrade", "heartwood", "charts/heartwood", "--namespace",
		e.namespace, "--reuse-values", "--set", "console.enabled=true", "--set",
		"console.clusters[0].namespace="+e.namespace, "--set",
		"console.clusters[0].name="+securedCluster, "--wait", "--timeout",
		deadline.String()); err != nil {
		t.Fatal(err)
	}
}

// adminPlugin runs kubectl heartwood with the permissions of KUBECONFIG.
func (e *environment) adminPlugin(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	p := e.linkPlugin(t, os.Getenv("KUBECONFIG"))
	return p.ok(t, stdin, append(args, "--namespace", e.namespace)...)
}

// consoleDoors are the ways to reach the console, each without a login.
func (e *environment) consoleDoors(t *testing.T) map[string]func(*testing.T) *browser {
	t.Helper()
	return map[string]func(*testing.T) *browser{
		"forwarded port": func(t *testing.T) *browser {
			return &browser{t: t, address: "http://" + e.forwardTo(t, "service/heartwood-console", "http"),
				transport: http.DefaultTransport}
		},
		"service proxy": func(t *testing.T) *browser {
			config, err := ctrl.GetConfig()
			if err != nil {
				t.Fatal(err)
			}
			transport, err := rest.TransportFor(config)
			if err != nil {
				t.Fatal(err)
			}
			return &browser{t: t, transport: transport, address: strings.TrimSuffix(config.Host, "/") +
				"/api/v1/namespaces/" + e.namespace + "/services/http:heartwood-console:http/proxy"}
		},
	}
}

// checkNobody checks that a user without permissions, and a request without a token, see nothing.
func (e *environment) checkNobody(b *browser, token string) {
	b.t.Helper()
	for _, page := range []string{"/", e.page("demo", "topics"), e.page("demo", "live?topic=ledger")} {
		if status, body, _ := b.send("GET", page, nil); status != http.StatusUnauthorized {
			b.t.Errorf("%s without a token: status %d: %s", page, status, body)
		}
	}
	if status, _, _ := b.send("POST", "/login", url.Values{"token": {"wrong"}}); status !=
		http.StatusUnauthorized {
		b.t.Errorf("login with a wrong token: status %d", status)
	}
	b.login(token)
	for _, page := range []string{"topics", "topic?name=ledger", "map?topic=ledger", "groups",
		"message?topic=ledger&partition=0&offset=0", "live?topic=ledger"} {
		if status, body, _ := b.send("GET", e.page("demo", page), nil); status !=
			http.StatusForbidden {
			b.t.Errorf("%s without a right: status %d: %s", page, status, body)
		}
	}
	if status, body, _ := b.send("GET", "/?list=1", nil); status != http.StatusOK ||
		strings.Contains(body, "clusters/"+e.namespace) {
		b.t.Errorf("the list of a user without rights: status %d: %s", status, body)
	}
}

// checkConsole checks what a user with permissions can see and do.
func (e *environment) checkConsole(b *browser) {
	b.t.Helper()
	for page, want := range map[string]string{
		"/":                       "clusters/" + e.namespace + "/secured/",
		e.page("demo", "topics"):  "ledger",
		e.page("demo", "brokers"): "demo-broker-2",
		e.page("demo", "topic?name=ledger&position=earliest"): "Looked at",
		e.page("demo", "map?topic=ledger"):                    "Segments of ledger-0",
		e.page("demo", "groups"):                              "Groups",
		e.page("demo", "topic?name=ledger&tab=settings"):      "cleanup.policy",
		e.page(securedCluster, "topics"):                      "allowed",
		e.page(securedCluster, "topic?name=allowed"):          "shown in the console",
		e.page(securedCluster, "topic?name=forbidden"):        "TOPIC_AUTHORIZATION_FAILED",
	} {
		// Brokers may be restarting. They accept a token of the console after they have first read the
		// keys.
		until(b.t, "page "+page, func(context.Context) string {
			wantStatus := http.StatusOK
			if strings.HasSuffix(page, "name=forbidden") {
				wantStatus = http.StatusForbidden
			}
			status, body, _ := b.send("GET", page, nil)
			if status != wantStatus || !strings.Contains(body, want) {
				return fmt.Sprintf("status %d, want %d and %q: %s", status, wantStatus, want, body)
			}
			return ""
		})
	}
	before := e.cleanNow(b.t, "ledger")
	status, body, location := b.send("POST", e.page("demo", "clean"), url.Values{"topic": {"ledger"}})
	if status != http.StatusSeeOther || e.cleanNow(b.t, "ledger") == before {
		b.t.Errorf("clean: status %d, location %q, annotation %q: %s", status, location,
			e.cleanNow(b.t, "ledger"), body)
	}
	status, body, _ = b.send("POST", e.page("demo", "clean"), url.Values{"topic": {"tickets"}})
	if status != http.StatusForbidden || !strings.Contains(body, "cannot patch resource") ||
		e.cleanNow(b.t, "tickets") != "" {
		b.t.Errorf("clean of a topic without the right: status %d: %s", status, body)
	}
	if status, _, location := b.send("POST", "/logout", url.Values{}); status != http.StatusSeeOther ||
		!strings.HasSuffix(location, "login") {
		b.t.Errorf("logout: status %d, location %q", status, location)
	}
}

// page returns the path of a LogCluster's page.
func (e *environment) page(cluster, page string) string {
	return "/clusters/" + e.namespace + "/" + cluster + "/" + page
}

// cleanNow returns the last request to clean a Topic.
func (e *environment) cleanNow(t *testing.T, topic string) string {
	t.Helper()
	var found v1alpha1.Topic
	if err := e.Get(t.Context(), client.ObjectKey{Name: topic}, &found); err != nil {
		t.Fatal(err)
	}
	return found.Annotations[v1alpha1.AnnotationCleanNow]
}

// login sends the form of the login page. The cookie in the response must be limited to the
// console's path.
func (b *browser) login(token string) {
	b.t.Helper()
	request := b.request("POST", "/login", url.Values{"token": {token}})
	response, err := b.transport.RoundTrip(request)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = response.Body.Close()
	cookies := response.Cookies()
	if response.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
		b.t.Fatalf("login: status %s, cookies %v, want a redirect with one", response.Status, cookies)
	}
	if path := cookies[0].Path; path != "" {
		b.t.Fatalf("login: a cookie of path %q, want that of the console", path)
	}
	if !cookies[0].HttpOnly || !cookies[0].Secure {
		b.t.Fatalf("login: cookie %v, want HttpOnly and Secure", cookies[0])
	}
	b.cookie = cookies[0].Name + "=" + cookies[0].Value
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.address+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.cookie != "" {
		request.Header.Set("Cookie", b.cookie)
	}
	return request
}

// send sends a request. It does not follow redirects.
func (b *browser) send(method, path string, form url.Values) (status int, body, location string) {
	b.t.Helper()
	response, err := b.transport.RoundTrip(b.request(method, path, form))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Header.Get("Location")
}
