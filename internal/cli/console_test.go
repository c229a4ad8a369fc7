package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// testConsole checks that the console shows the topic of the broker behind the forwarded port, and
// the records, which it reads over the Kafka protocol. A request to clean must set the annotation
// on the Topic with the user's rights.
func (f *fixture) testConsole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	root := Root()
	root.SetArgs([]string{"--kubeconfig", f.restricted, "console", "--port", "0"})
	root.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "ready console=")
	if err != nil || !found {
		t.Fatalf("%q, error %v", line, err)
	}
	runAs(t.Context(), f.kubeconfig, "console:shown\n", "produce", "tickets", "-K", ":").ok(t)
	for path, want := range map[string]string{"": "read only</p>", "groups": "Groups",
		"topic?name=tickets&key=console":  "shown",
		"topic?name=tickets&tab=settings": "cleanup.policy"} {
		if status, page := f.page(t, http.MethodGet, address+path, ""); status != http.StatusOK ||
			!strings.Contains(page, want) {
			t.Errorf("%s: status %d: %s", path, status, page)
		}
	}
	status, page := f.page(t, http.MethodPost, address+"clean", "topic=tickets")
	if status != http.StatusBadGateway || !strings.Contains(page, "cannot patch resource") {
		t.Errorf("a user without the right: status %d: %s", status, page)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// page requests a page of the console, and returns its status and body.
func (f *fixture) page(t *testing.T, method, address, form string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address,
		strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
