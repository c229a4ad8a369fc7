package smoke

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/hack/releases"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/git"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// root is the directory of the repository.
const root = "../.."

// TestLastReleaseAndThisVersionRunInTurn runs the last release and this version in turn on one data
// directory, while a producer writes without a pause: no acknowledged record may be lost. Until
// there is a release, it pins the last commit like one.
func TestLastReleaseAndThisVersionRunInTurn(t *testing.T) {
	t.Parallel()
	repository := committed(t)
	pins, err := releases.Read(root + "/hack/releases")
	if err != nil {
		t.Fatal(err)
	}
	pin := releases.Last(pins, "")
	if pin == nil {
		pin = pseudoRelease(t, repository)
	}
	released := filepath.Join(t.TempDir(), "heartwood")
	if err := pin.Build(t.Context(), repository, released); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.CommandContext(t.Context(), released, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(printed), pin.Version) {
		t.Fatalf("heartwood --version prints %q, %v; want %s", printed, err, pin.Version)
	}

	s := process.NewSetup(t, 1, cluster, tickets)
	book := ledger.New()
	p := process.StartBinary(t, released, s.Args()...)
	bootstrap, _ := p.Ready(t)
	stop := produceOn(t, bootstrap, book)
	for turn := range 4 {
		if turn > 0 {
			if turn%2 == 1 {
				p = process.Start(t, s.Args()...)
			} else {
				p = process.StartBinary(t, released, s.Args()...)
			}
			p.Ready(t)
		}
		before := book.Count()
		await.Until(t, "1000 further records acknowledged",
			func() bool { return book.Count() >= before+1000 })
		if turn == 3 {
			stop()
			checkTopic(t, bootstrap, "tickets", book)
		}
		if code := p.Stop(t, syscall.SIGTERM); code != 0 {
			t.Fatalf("turn %d: SIGTERM ended the process with code %d", turn, code)
		}
	}
}

// produceOn produces to topic tickets until the returned function is called.
func produceOn(t *testing.T, bootstrap []string, book *ledger.Ledger) (stop func()) {
	t.Helper()
	client := producer(t, bootstrap)
	ctx, cancel := context.WithCancel(process.WithDeadline(t))
	var running sync.WaitGroup
	running.Go(func() {
		load := traffic.Updates{Topic: "tickets", Keys: 200, Rounds: 1}
		for ctx.Err() == nil {
			load.Seed++
			if err := traffic.Produce(process.WithDeadline(t), client, book, load); err != nil {
				t.Errorf("produce: %v", err)
				return
			}
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// committed returns a clone of this repository, whose worktrees are of no concern to others. It
// skips the test in a directory without a repository, such as an unpacked archive.
func committed(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(root + "/.git"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this is not a Git repository")
	}
	dir := filepath.Join(t.TempDir(), "clone")
	git.Run(t, root, "clone", "--quiet", "--no-checkout", ".", dir)
	return dir
}

// pseudoRelease returns the pin of the last commit of a repository as v0.0.1. It builds the program
// in another clone, in which the commit has the tag: the pin must hold without the tag.
func pseudoRelease(t *testing.T, repository string) *releases.Pin {
	t.Helper()
	tagged := filepath.Join(t.TempDir(), "tagged")
	git.Run(t, repository, "clone", "--quiet", ".", tagged)
	git.Run(t, tagged, "tag", "v0.0.1")
	file := filepath.Join(t.TempDir(), "heartwood")
	cmd := exec.CommandContext(t.Context(), tagged+"/hack/build-program.sh", "v0.0.1", "linux",
		runtime.GOARCH, "heartwood", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pin := releases.Pin{Version: "v0.0.1", Commit: git.Run(t, tagged, "rev-parse", "HEAD"),
		Go:       runtime.Version(),
		Programs: map[string]string{"linux_" + runtime.GOARCH: fmt.Sprintf("%x", sha256.Sum256(content))},
		Image:    fmt.Sprintf("sha256:%x", sha256.Sum256(nil))} // no image is built
	dir := t.TempDir()
	if err := releases.Write(dir, pin); err != nil {
		t.Fatal(err)
	}
	pins, err := releases.Read(dir)
	if err != nil || len(pins) != 1 {
		t.Fatalf("%d releases, %v", len(pins), err)
	}
	return &pins[0]
}
