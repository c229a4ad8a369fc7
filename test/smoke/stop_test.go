package smoke

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// TestStreamsDoNotDelayTheShutdown stops a cluster while a page of the console and a client of a
// broker read event streams. If the streams delayed a broker's shutdown, the broker would be
// killed, and the exit code would be 1.
func TestStreamsDoNotDelayTheShutdown(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 2, fmt.Sprintf(limited, 1, fast), keyedTopic)
	s.HTTP = ports.Free(t, 3)
	p := process.Start(t, append(s.Args(), "--processes")...)
	p.Ready(t)
	host, port, _ := strings.Cut(s.HTTP, ":")
	var first int
	if _, err := fmt.Sscan(port, &first); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		fmt.Sprintf("http://%s/console/live?topic=tickets", s.HTTP),
		fmt.Sprintf("http://%s:%d/api/v1/events?topic=tickets", host, first+1),
		fmt.Sprintf("http://%s:%d/api/v1/events?topic=tickets", host, first+2),
	} {
		openStream(t, url)
	}
	if code := p.Stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// openStream opens a stream of server-sent events and waits for its first event. It closes the
// stream at the end of the test.
func openStream(t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(process.WithDeadline(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, first line %q, %v", url, response.StatusCode, line, err)
	}
}
