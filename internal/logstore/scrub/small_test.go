package scrub

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// furtherFiles contains files in a data directory that a test's store does not write itself.
var furtherFiles = map[string]string{"cluster-id": "demo\n", "producer-ids": "0\n1000\n",
	"clean-now.json": `{"version":1,"done":[]}` + "\n", "format-level": "1\n",
	"segment-checkpoint": string(checkpoint.EncodeClosedLogs(nil, 7)),
	"cleaner-history":    `{"pass":{"readBytes":17}}` + "\n", "cleaner-totals": `{"passes":3}` + "\n"}

// smallKinds lists the kinds of small files: names, or extensions of names.
var smallKinds = []string{"meta.properties", "recovery-point-offset-checkpoint",
	"log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint",
	"segment-checkpoint", "tombstone-horizon-checkpoint", "tombstone-agreement-checkpoint",
	"aborted-transactions-checkpoint", "cluster-id", "producer-ids", "clean-now.json", "format-level",
	"cleaner-history", "cleaner-totals", StateFile, "partition.metadata", "reclaim.policy",
	"assignment", "copy.source", "copy.gap", "records.lost", "leader-epoch-checkpoint", "key-salt",
	".snapshot"}

// smallFiles returns the small files below the data directory, by kind.
func smallFiles(t *testing.T, f *fixture) map[string]string {
	t.Helper()
	log := f.store.Log(events)
	if err := errors.Join(log.Notes().SetCopySource(2), log.Notes().SetCopyGap(7),
		log.Notes().SetReplicaIncarnation("k3f9x2ab"), log.Notes().SetLoss("a test")); err != nil {
		t.Fatal(err)
	}
	for name, content := range furtherFiles {
		if err := vfs.WriteFileAtomic(f.fs, filepath.Join(dataDir, name),
			[]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]string{}
	for _, dir := range []string{dataDir, f.store.Log(events).Dir(), f.store.Log(tickets).Dir()} {
		entries, err := f.fs.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			kind := entry.Name()
			if strings.HasSuffix(kind, ".snapshot") {
				kind = ".snapshot"
			}
			if !entry.IsDir() && hasDigest(entry.Name()) {
				found[kind] = filepath.Join(dir, entry.Name())
			}
		}
	}
	return found
}

// TestEveryBitOfSmallFilesIsChecked flips any bit of one small file of each kind without changing
// the modification time, like a faulty disk. The file may remain well-formed.
func TestEveryBitOfSmallFilesIsChecked(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	fileKinds := smallKinds
	for _, kind := range fileKinds {
		t.Run(kind, func(t *testing.T) {
			mem := vfs.NewMem()
			f := open(t, mem)
			fill(t, f)
			s, stop := start(t, f, nil)
			awaitRounds(t, s, 1)
			files := smallFiles(t, f)
			for found := range files {
				if !slices.Contains(fileKinds, found) {
					t.Errorf("kind %s is not tested", found)
				}
			}
			name, exists := files[kind]
			if !exists {
				t.Fatalf("no file %s in %v", kind, files)
			}
			if kind == StateFile {
				stop() // stop writes the file
				s.update(State.Anew)
				mustCompare(t, s, name, false)
				flipAny(t, mem, name, random)
				mustCompare(t, s, name, true)
				return
			}
			awaitRounds(t, s, 1)
			if damaged := s.State().Damaged; len(damaged) > 0 {
				t.Fatalf("damage before a bit was flipped: %v", damaged)
			}
			original := read(t, mem, name)
			flipAny(t, mem, name, random)
			if ownerless[kind] {
				awaitPlace(t, s, name, damaged)
				return
			}
			awaitPlace(t, s, name, repairs)
			mustBeRestored(t, f, s, kind, name, original)
		})
	}
}

// ownerless contains the kinds of files that a broker writes and that a store alone cannot repair.
var ownerless = map[string]bool{"cluster-id": true, "producer-ids": true, "clean-now.json": true,
	"cleaner-history": true, "cleaner-totals": true}

// mustBeRestored checks the content of a file after its repair.
func mustBeRestored(t *testing.T, f *fixture, s *Scrubber, kind, name string, original []byte) {
	t.Helper()
	if damaged := s.State().Damaged; len(damaged) > 0 || s.repaired.Load() != 1 {
		t.Errorf("%d files repaired, damage %v", s.repaired.Load(), damaged)
	}
	switch kind {
	case "segment-checkpoint": // the next clean shutdown writes it
		if _, err := f.fs.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was not removed: %v", name, err)
		}
	case ".snapshot": // recomputed, with other times
		base, _, _ := segment.ParseName(filepath.Base(name))
		got, err := producer.Decode(read(t, f.fs, name), base)
		want, wantErr := producer.Decode(original, base)
		if err = errors.Join(err, wantErr); err != nil {
			t.Fatal(err)
		}
		if got, want := timeless(got), timeless(want); !reflect.DeepEqual(got, want) {
			t.Errorf("producers %+v, want %+v", got, want)
		}
	default:
		if got := read(t, f.fs, name); !bytes.Equal(got, original) {
			t.Errorf("%q, want %q", got, original)
		}
	}
}

// timeless returns the producers of a state without the times at which they were seen.
func timeless(state producer.State) (producers []producer.Info) {
	for _, info := range state.Producers() {
		info.LastSeen = time.Time{}
		producers = append(producers, info)
	}
	return producers
}

// mustCompare compares a file with its digest.
func mustCompare(t *testing.T, s *Scrubber, name string, want bool) {
	t.Helper()
	s.files.pace.ctx = t.Context()
	if problem, err := s.compareSmallFile(name, nothingKnown); err != nil || problem != "" != want {
		t.Errorf("%s: %q, %v", name, problem, err)
	}
}

// flipAny flips any bit of a file, and keeps its modification time.
func flipAny(t *testing.T, fsys vfs.FS, name string, random *rand.Rand) {
	t.Helper()
	info, err := fsys.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	content := read(t, fsys, name)
	content[random.IntN(len(content))] ^= 1 << random.IntN(8)
	file, err := fsys.OpenReadWrite(name)
	if err == nil {
		_, err = file.WriteAt(content, 0)
		err = errors.Join(err, file.Close(), fsys.Chtimes(name, info.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMalformedSmallFilesAreDamage checks that malformed files, and files that contradict the log,
// are reported as damaged even if this process has not read them before. Files that should not
// exist are removed.
func TestMalformedSmallFilesAreDamage(t *testing.T) {
	for name, content := range map[string]string{
		"partition.metadata": "version: 0\ntopic_id: " + datadir.NewID().String() + "\n",
		"reclaim.policy":     "version: 0\nretain: false\n",
		"assignment":         "version: 0\nid: \n",
		"copy.source":        "version: 1\nbroker: 2\n",
		"copy.gap":           "version: 0\nepoch: x\n",
		"records.lost":       "version: 0\n",
		"../meta.properties": "version=3\n",
		"../format-level":    "one\n",
		"../further":         "malformed",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			mem := vfs.NewMem()
			f := open(t, mem)
			log := f.create(t, events, storetest.Settings(func(*topicconfig.Settings) {}))
			path := filepath.Join(log.Dir(), name)
			original, err := mem.ReadFile(path)
			exists := err == nil
			if name == "../format-level" { // without the file the level is 1
				original, exists = []byte("1\n"), true
			}
			if err := vfs.WriteFileAtomic(mem, path, []byte(content)); err != nil {
				t.Fatal(err)
			}
			s, _ := startWith(t, f, func(o *Options) {
				o.Files = map[string]File{"further": {
					Check:   func([]byte) error { return errMalformedFile },
					Rewrite: func() error { return datadir.ErrNotInMemory }}}
			})
			if name == "../further" { // its owner does not know the content
				awaitPlace(t, s, path, damaged)
				return
			}
			awaitPlace(t, s, path, repairs)
			if got, err := mem.ReadFile(path); (err == nil) != exists || !bytes.Equal(got, original) {
				t.Errorf("%q, %v; want %q", got, err, original)
			}
		})
	}
}

var errMalformedFile = errors.New("malformed")

// TestRewrittenFilesAreNoDamage rewrites files between rounds, some of them with content of the
// same size.
func TestRewrittenFilesAreNoDamage(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	log := f.create(t, events, storetest.Settings(func(*topicconfig.Settings) {}))
	s, _ := start(t, f, func(log *logstore.Log, base int64) {
		t.Errorf("segment %d of %s reported as damaged", base, log.ID())
	})
	for i := range int32(20) {
		if err := log.Notes().SetCopyGap(i); err != nil {
			t.Fatal(err)
		}
		awaitRounds(t, s, 1)
		if damaged := s.State().Damaged; len(damaged) > 0 {
			t.Fatal(damaged)
		}
	}
	if err := log.Notes().SetCopyGap(-1); err != nil {
		t.Fatal(err)
	}
	awaitRounds(t, s, 1)
}
