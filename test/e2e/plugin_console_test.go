//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// consoleReady matches the line that kubectl heartwood console prints when it is ready.
var consoleReady = regexp.MustCompile(`^ready console=(http://127\.0\.0\.1:[0-9]+)/\n$`)

// serves starts the console, reads pages with the brokers' reports and records, and ends the
// console.
func (o *operatedCluster) serves(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := o.plugin.command(ctx, "", "console", "--port", "0", "--cluster", operated)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	found := consoleReady.FindStringSubmatch(line)
	if found == nil {
		cancel()
		t.Fatalf("the console printed %q: %v, %v", line, err, cmd.Wait())
	}
	page := &browser{t: t, address: found[1], transport: &http.Transport{}}
	key, _, _ := strings.Cut(o.records[0], "\t")
	for path, want := range map[string]string{
		"/topics":  cargo,
		"/brokers": v1alpha1.BrokerLeaseName(operated, 2),
		"/topic?name=" + cargo + "&position=earliest": key,
	} {
		if status, body, _ := page.send("GET", path, nil); status != http.StatusOK ||
			!strings.Contains(body, want) {
			t.Errorf("%s: status %d, want %q: %s", path, status, want, body)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the console after Ctrl-C: %v", err)
	}
	if response, err := http.Get(found[1]); err == nil {
		_ = response.Body.Close()
		t.Errorf("the console serves after its end: %s", response.Status)
	}
}
