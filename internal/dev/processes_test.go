package dev

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestProcessTerminatedBeforeItsSignalHandler: wait stops a process with SIGTERM before the process
// has installed its signal handler, so the signal terminates the process. This is not an error, but
// a signal that another process sends is an error.
func TestProcessTerminatedBeforeItsSignalHandler(t *testing.T) {
	for name, c := range map[string]struct {
		signal    syscall.Signal // sent by another process; 0: none, and wait stops the process
		isSuccess bool
	}{
		"stopped": {0, true}, "killed": {syscall.SIGKILL, false},
		"terminated by another process": {syscall.SIGTERM, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			command := exec.Command("sleep", "600") // a program without a signal handler
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signal == 0 {
				cancel()
			} else if err := command.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if err := wait(ctx, command, nil); (err == nil) != c.isSuccess {
				t.Errorf("got error %v, want success: %t", err, c.isSuccess)
			}
		})
	}
}

// TestRestartPauseAfterEarlyExit checks that a process that exits early is restarted after a pause.
// Without the pause, a process that always fails would be restarted a hundred times per second.
func TestRestartPauseAfterEarlyExit(t *testing.T) {
	for lived, want := range map[time.Duration]time.Duration{0: restartDelay,
		restartDelay - 1: restartDelay, restartDelay: 0, time.Hour: 0} {
		if got := restartPause(lived); got != want {
			t.Errorf("after %s: got pause %s, want %s", lived, got, want)
		}
	}
}

// TestReadyCountsProcesses checks that with --processes, the cluster is ready when every broker's
// process has registered.
func TestReadyCountsProcesses(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	store, err := local.Open(mem, "/data/"+metadataFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Sync(nil, 2, nil); err != nil {
		t.Fatal(err)
	}
	c := &cluster{opts: Options{Processes: true}, store: store}
	ctx, cancel := context.WithCancel(t.Context())
	var brokers sync.WaitGroup
	defer brokers.Wait()
	defer cancel()
	for id, want := range []string{"0 of 2 brokers are up", "1 of 2 brokers are up"} {
		if err := c.ready(); err == nil || err.Error() != want {
			t.Errorf("ready: got error %v, want %s", err, want)
		}
		registered := make(chan struct{})
		brokers.Go(func() {
			first := sync.OnceFunc(func() { close(registered) })
			_ = store.Run(ctx, metadata.Broker{ID: int32(id)}, func(*metadata.Image) { first() })
		})
		<-registered
	}
	if err := c.ready(); err != nil {
		t.Error(err)
	}
}

func TestParentReturnsTheAddressesOfBrokers(t *testing.T) {
	own := http.HandlerFunc(func(to http.ResponseWriter,
		_ *http.Request) {
		to.WriteHeader(http.StatusOK)
	})
	store, err := local.Open(vfs.NewMem(), "/metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Sync(nil, 2, nil); err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int]string{9644: "use 127.0.0.1:9645 for broker 0",
		0: "set a port with --http"} {
		c := &cluster{http: address{host: "127.0.0.1", port: port}, store: store}
		handler := c.redirectAPI(own)
		for path, status := range map[string]int{"/api/v1/topics": http.StatusMisdirectedRequest,
			"/readyz": http.StatusOK} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			if answer.Code != status {
				t.Errorf("%s: got status %d, want %d", path, answer.Code, status)
			}
			if status != http.StatusOK && !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s: got %s, want text %q", path, answer.Body, want)
			}
			// The request's host is example.com, so the response contains example.com.
			addresses := strings.Contains(answer.Body.String(),
				`"addresses":["example.com:9645","example.com:9646"]`)
			if status != http.StatusOK && addresses != (port != 0) {
				t.Errorf("%s: got %s", path, answer.Body)
			}
		}
	}
}
