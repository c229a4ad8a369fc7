package logstore

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/vfs"
)

// wantLost checks the lost logs of a store.
func wantLost(t *testing.T, when string, store *Store, want ...LostLog) {
	t.Helper()
	got, err := store.LostLogs()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: lost logs (-want +got):\n%s", when, diff)
	}
}

// TestLostLogsAreListed checks the list of lost logs from the start of a store on, until the loss
// is removed, and after further starts.
func TestLostLogsAreListed(t *testing.T) {
	fsys := stoppedDisk(t)
	store := openStore(t, fsys)
	wantLost(t, "complete log", store)
	must(t, store.Close())
	must(t, fsys.RemoveAll(filepath.Join(dataDir, partition.String())))

	store = openStore(t, fsys)
	wantLost(t, "missing directory", store, LostLog{ID: partition})
	must(t, store.Close())
	store = openStore(t, fsys)
	wantLost(t, "missing directory at the second start", store, LostLog{ID: partition})

	log := createLog(t, store, settings(nil))
	lost := LostLog{ID: partition, Topic: log.TopicID()}
	wantLost(t, "created again", store, lost)
	must(t, store.Close())
	store = openStore(t, fsys)
	wantLost(t, "created before the start", store, lost)

	must(t, store.Log(partition).Notes().StampLoss("i"))
	lost.ReplicaIncarnation = new("i")
	wantLost(t, "known incarnation", store, lost)
	must(t, store.Log(partition).Notes().SetLoss(""))
	wantLost(t, "accepted loss", store)
}

// TestRetainedLogIsNotListedAsLost checks a log that was retained shortly before a crash, so that
// the checkpoints still list it. A later topic of the name continues with its records.
func TestRetainedLogIsNotListedAsLost(t *testing.T) {
	fsys := stoppedDisk(t)
	before := checkpointFiles(t, fsys)
	store := openStore(t, fsys)
	must(t, store.Release(partition, true))
	must(t, store.Close())
	for name, content := range before {
		must(t, vfs.WriteFileAtomic(fsys, name, content))
	}
	store = openStore(t, fsys)
	wantLost(t, "retained log", store)
	if loss := createLog(t, store, settings(nil)).Notes().Loss(); loss != "" {
		t.Errorf("loss %q", loss)
	}
}

// checkpointFiles returns the contents of the checkpoint files.
func checkpointFiles(t *testing.T, fsys *vfs.Mem) map[string][]byte {
	t.Helper()
	entries, err := fsys.ReadDir(dataDir)
	must(t, err)
	files := map[string][]byte{}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "-checkpoint") {
			name := filepath.Join(dataDir, entry.Name())
			files[name], err = fsys.ReadFile(name)
			must(t, err)
		}
	}
	return files
}
