package smoke

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// TestDowngradeToTheFormatLevel runs two binaries in turn: this version, and a later version that
// supports one more format level. The earlier version must run again while the cluster still has
// its level. After the level was raised, it must refuse the data directory and change no file.
func TestDowngradeToTheFormatLevel(t *testing.T) {
	t.Parallel()
	later := filepath.Join(t.TempDir(), "heartwood-later")
	const level = "-X heartwood.dev/heartwood/internal/version.formatLevel=2"
	if err := process.Build(later, level); err != nil {
		t.Fatal(err)
	}
	s := process.NewSetup(t, 1, cluster, tickets)
	book, load := ledger.New(), traffic.Updates{Topic: "tickets", Keys: 500, Rounds: 3}
	exchange := func(p *process.Process) {
		t.Helper()
		bootstrap, _ := p.Ready(t)
		load.Seed++
		client := producer(t, bootstrap)
		if err := traffic.Produce(process.WithDeadline(t), client, book, load); err != nil {
			t.Fatal(err)
		}
		checkTopic(t, bootstrap, "tickets", book)
		client.Close()
		if code := p.Stop(t, syscall.SIGTERM); code != 0 {
			t.Fatalf("SIGTERM ended the process with code %d", code)
		}
	}
	exchange(process.Start(t, s.Args()...))
	exchange(process.StartBinary(t, later, s.Args()...))
	exchange(process.Start(t, s.Args()...))

	s.Apply(t, "cluster.yaml", strings.Replace(cluster, "brokers: 1", "brokers: 1, formatLevel: 2",
		1)+"---\n"+tickets)
	exchange(process.StartBinary(t, later, s.Args()...))
	before := digest(t, s.DataDir)
	refused := process.Start(t, s.Args()...)
	if code := refused.Wait(t); code == 0 || !strings.Contains(refused.Stderr.String(),
		"format level 2: this version of Heartwood is too old: it supports levels up to 1") {
		t.Errorf("code %d, stderr %q", code, refused.Stderr.String())
	}
	if after := digest(t, s.DataDir); !maps.Equal(before, after) {
		t.Errorf("files have changed: %v, then %v", before, after)
	}
	exchange(process.StartBinary(t, later, s.Args()...))
}

// digest returns a checksum of each file below a directory.
func digest(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}
