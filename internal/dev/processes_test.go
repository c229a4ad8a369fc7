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

// A process that ends by the signal that asks it to stop has not begun yet, and that is no failure;
// by another signal it was killed.
func TestAProcessMayEndBeforeItListensForSignals(t *testing.T) {
	for name, c := range map[string]struct {
		// that somebody else sends; 0: none, and the process is asked to stop
		signal  syscall.Signal
		orderly bool
	}{
		"asked to stop": {0, true}, "killed": {syscall.SIGKILL, false},
		"terminated by somebody else": {syscall.SIGTERM, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			command := exec.Command("sleep", "600") // listens for nothing
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signal == 0 {
				cancel()
			} else if err := command.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if err := wait(ctx, command, nil); (err == nil) != c.orderly {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAProcessThatEndsAtOnceIsNotStartedAtOnce: one whose directory is broken would be started a
// hundred times a second.
func TestAProcessThatEndsAtOnceIsNotStartedAtOnce(t *testing.T) {
	for lived, want := range map[time.Duration]time.Duration{0: restartDelay,
		restartDelay - 1: restartDelay, restartDelay: 0, time.Hour: 0} {
		if got := pauseAfter(lived); got != want {
			t.Errorf("after %s it stays down for %s, want %s", lived, got, want)
		}
	}
}

// TestReadyCountsProcesses: the cluster is ready once the process of every broker has registered.
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
			t.Errorf("ready: %v, want %s", err, want)
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

// TestTheParentOfProcessesSaysWhereBrokersAre, for an empty list of topics would be taken for the
// truth.
func TestTheParentOfProcessesSaysWhereBrokersAre(t *testing.T) {
	own := http.HandlerFunc(func(to http.ResponseWriter,
		_ *http.Request) {
		to.WriteHeader(http.StatusOK)
	})
	for port, want := range map[int]string{9644: "ask 127.0.0.1:9645 for broker 0",
		0: "give --http a port"} {
		handler := (&cluster{http: address{host: "127.0.0.1", port: port}}).sendOn(own)
		for path, status := range map[string]int{"/api/v1/topics": http.StatusMisdirectedRequest,
			"/readyz": http.StatusOK} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			if answer.Code != status {
				t.Errorf("%s: %d, want %d", path, answer.Code, status)
			}
			if status != http.StatusOK && !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s: %s, want %q in it", path, answer.Body, want)
			}
		}
	}
}
