package browser

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
)

// tokens are the API server's users: an administrator, one who can see everything and clean, one
// who can see only reports, and one without permissions.
const tokens = `admin-token,admin,1,system:masters
alice-token,alice,2,
bob-token,bob,3,
eve-token,eve,4,
`

// apiServer is an API server with these users: etcd and kube-apiserver from KUBEBUILDER_ASSETS.
type apiServer struct {
	t   *testing.T
	url string
	dir string
}

// startAPIServer starts etcd and kube-apiserver, and stops them at the end of the test.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("SKIPPED: KUBEBUILDER_ASSETS names no directory; run make browser")
	}
	s := &apiServer{t: t, dir: t.TempDir()}
	client, peer, secure := ports.Free(t, 1), ports.Free(t, 1), ports.Free(t, 1)
	s.url = "https://" + secure
	s.write("tokens.csv", []byte(tokens))
	s.write("key.pem", accountKey(t))
	s.run(filepath.Join(assets, "etcd"), "--data-dir="+filepath.Join(s.dir, "etcd"),
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--unsafe-no-fsync")
	_, port, _ := net.SplitHostPort(secure)
	key := filepath.Join(s.dir, "key.pem")
	s.run(filepath.Join(assets, "kube-apiserver"), "--etcd-servers=http://"+client,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+s.dir,
		"--authorization-mode=RBAC", "--token-auth-file="+filepath.Join(s.dir, "tokens.csv"),
		"--service-account-issuer=https://localhost", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount")
	await.Until(t, "the API server is ready",
		func() bool { return s.send("GET", "/readyz", "") == http.StatusOK })
	return s
}

func accountKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (s *apiServer) write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run starts a program, and stops it at the end of the test. Its output is shown if the test fails.
func (s *apiServer) run(name string, args ...string) {
	s.t.Helper()
	var out bytes.Buffer
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if s.t.Failed() {
			s.t.Logf("%s: ... %s", name, out.Bytes()[max(0, out.Len()-4000):])
		}
	})
}

// send sends a request as the administrator. It returns the status, or 0 without a response.
func (s *apiServer) send(method, path, body string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path,
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer admin-token")
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // self-signed certificate
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// grant gives a user permissions on LogCluster demo and its topics.
func (s *apiServer) grant(user, rules string) {
	s.t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	role := fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
		"metadata": {"name": %q}, "rules": [%s]}`, user, rules)
	binding := fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": {"name": %[1]q}, "subjects": [{"kind": "User", "name": %[1]q,
			"apiGroup": "rbac.authorization.k8s.io"}],
		"roleRef": {"kind": "Role", "name": %[1]q, "apiGroup": "rbac.authorization.k8s.io"}}`, user)
	for path, body := range map[string]string{"roles": role, "rolebindings": binding} {
		if status := s.send("POST", rbac+path, body); status != http.StatusCreated {
			s.t.Fatalf("create %s of %s: status %d", path, user, status)
		}
	}
}

// startConsole runs `heartwood console --auth=kubernetes` for a cluster's brokers, and returns the
// console's address.
func (s *apiServer) startConsole(c *cluster) (url string) {
	s.t.Helper()
	s.write("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %s, insecure-skip-tls-verify: true}}]
contexts: [{name: test, context: {cluster: test}}]
current-context: test
`, s.url))
	listen := ports.Free(s.t, 1)
	command := exec.Command(os.Getenv("HEARTWOOD_BINARY"), "console", "--auth=kubernetes",
		"--logcluster=default/demo", "--http", listen, "--bootstrap",
		strings.Join(c.bootstrap, ","), "--address", strings.Join(c.brokerHTTP(), ","))
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(s.dir, "kubeconfig"))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			s.t.Errorf("the console did not stop as it should: %v", err)
		}
	})
	await.For(s.t, func() string {
		conn, err := net.Dial("tcp", listen)
		if err != nil {
			return "the console does not listen: " + err.Error()
		}
		conn.Close()
		return ""
	})
	// Over HTTP, browsers send a cookie with attribute Secure only to localhost.
	_, port, _ := net.SplitHostPort(listen)
	return "http://localhost:" + port + "/"
}

// TestLogin logs users in with the login page. The Kubernetes API server decides what they can do.
func TestLogin(t *testing.T) {
	b := open(t)
	s := startAPIServer(t)
	c := startCluster(t, "")
	c.produce(customers(2_000, 0)...)
	s.grant("alice", `{"apiGroups": ["heartwood.dev"], "resources": ["logclusters/report",
		"logclusters/records"], "verbs": ["get"]}, {"apiGroups": ["heartwood.dev"],
		"resources": ["topics"], "verbs": ["list", "patch"]}`)
	s.grant("bob", `{"apiGroups": ["heartwood.dev"], "resources": ["logclusters/report"],
		"verbs": ["get"]}`)
	root := s.startConsole(c)
	login := func(token string) {
		t.Helper()
		b.visit(root)
		b.await(`location.pathname.endsWith("/login") && document.activeElement.name === "token"`)
		b.js(`document.querySelector("input[name=token]").value = ` + quote(token))
		b.click("form.filter button")
	}
	logout := func() {
		t.Helper()
		b.click(`form[action$="logout"] button`)
		b.await(`location.pathname.endsWith("/login")`)
	}
	records := "topic?name=customers&tab=messages"

	login("no-such-token")
	b.await(`document.querySelector("main .notice.bad")?.innerText.includes("does not accept this token")`)

	login("alice-token")
	b.await(`document.querySelector(".where")?.innerText.includes("alice")`)
	b.await(`document.querySelector('nav a[href="map"]')`)
	if eval[bool](b, `document.cookie !== ""`) {
		t.Error("scripts can read the cookie")
	}
	if text := b.text(".where"); !strings.Contains(text, "may clean") {
		t.Errorf("the head says %q of a user who may patch topics", text)
	}
	cluster := strings.TrimSuffix(eval[string](b, "location.href"), "?list=1")
	b.visit(cluster + "map?topic=customers")
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.visit(cluster + records)
	if text := b.text("main"); !strings.Contains(text, "Looked at") {
		t.Errorf("alice sees no messages: %.300q", text)
	}
	logout()
	b.visit(cluster + records)
	b.await(`location.pathname.endsWith("/login")`)

	login("bob-token")
	b.await(`document.querySelector(".where")?.innerText.includes("bob")`)
	if text := b.text(".where"); !strings.Contains(text, "read only") {
		t.Errorf("the head says %q of a user who may not patch topics", text)
	}
	b.visit(cluster + "map?topic=customers")
	b.await(`document.querySelector("a.b")`)
	b.visit(cluster + records)
	if text := b.text("main"); strings.Contains(text, "C-0") {
		t.Errorf("bob sees messages: %.300q", text)
	}
	logout()

	login("eve-token")
	b.await(`document.querySelector(".where")?.innerText.includes("eve")`)
	b.visit(cluster + "map?topic=customers")
	if text := b.text("main"); strings.Contains(text, "segments") {
		t.Errorf("eve sees the map: %.300q", text)
	}
	b.checkFaults()
}
