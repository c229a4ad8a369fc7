package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

var year2026 = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func openIDs(t *testing.T, fsys vfs.FS, node int32, now time.Time) *ProducerIDs {
	t.Helper()
	// Create the directory here. In a broker, the log store creates it.
	if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	ids, err := OpenProducerIDs(fsys, "/data", node, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// registerIDs registers a broker in the same way as the metadata store. known is the previous
// registration, which registerIDs replaces.
func registerIDs(t *testing.T, ids *ProducerIDs, known *metadata.Broker, directory string) {
	t.Helper()
	self := metadata.Broker{Directory: directory, ProducerIDs: ids.Bound(),
		ProducerIDsLost: ids.Lost() != nil}
	self.ProducerIDs = metadata.NextProducerIDs(known.ProducerIDs, known.Directory, self)
	*known = self
	if err := ids.Begin(self.ProducerIDs); err != nil {
		t.Fatal(err)
	}
}

func nextID(t *testing.T, ids *ProducerIDs) int64 {
	t.Helper()
	id, err := ids.Next()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestProducerIDsAreUnique checks that no id is allocated twice. In random order, brokers allocate
// ids, stop, crash with or without losing unsynced writes, and get new disks. With an even seed,
// the metadata store keeps the registrations, and clocks may jump, even back by years. With an odd
// seed, the store keeps no registrations, and clocks only advance. The model is the set of all
// allocated ids.
func TestProducerIDsAreUnique(t *testing.T) {
	for seed := range seed.Sequence(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			now := year2026
			allocated := map[int64]bool{}
			disks := make([]*vfs.Mem, 3)
			brokers, known, directories := make([]*ProducerIDs, 3), make([]metadata.Broker, 3),
				make([]int, 3)
			keeps := seed%2 == 0
			open := func(i int, directory string) {
				brokers[i] = openIDs(t, disks[i], int32(i), now)
				if !keeps {
					known[i] = metadata.Broker{}
				}
				registerIDs(t, brokers[i], &known[i], directory)
			}
			for i := range brokers {
				disks[i] = vfs.NewMem()
				open(i, "0")
			}
			for range 300 {
				i := random.IntN(len(brokers))
				count := random.IntN(50)
				for range count {
					id := nextID(t, brokers[i])
					if id < 0 || allocated[id] {
						t.Fatalf("broker %d allocated %d, which is negative or a duplicate",
							i, id)
					}
					allocated[id] = true
				}
				// This is the highest allocation rate that firstCounter supports.
				now = now.Add(time.Duration(count+1) * time.Microsecond)
				switch random.IntN(10) {
				case 0: // stopped or killed: the file remains
				case 1:
					disks[i] = disks[i].CrashClone()
				case 2:
					disks[i] = disks[i].CrashClonePartly(random.Uint64())
				case 3:
					disks[i] = vfs.NewMem()
					directories[i]++
				case 4:
					damageIDs(t, disks[i], [][]byte{nil, []byte("0\n27993600"),
						[]byte("nonsense")}[random.IntN(3)])
				default:
					continue
				}
				// This is the highest restart rate that firstCounter supports.
				now = now.Add(producerIDBlock * time.Microsecond)
				if keeps {
					now = year2026.Add(time.Duration(random.IntN(3*365)-365) * 24 * time.Hour)
				}
				open(i, fmt.Sprint(directories[i]))
			}
		})
	}
}

func TestProducerIDsFromManyGoroutinesAreUnique(t *testing.T) {
	ids := openIDs(t, vfs.NewMem(), 1, year2026)
	registerIDs(t, ids, &metadata.Broker{}, "")
	var allocated sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				id, err := ids.Next()
				if _, twice := allocated.LoadOrStore(id, true); twice || err != nil {
					t.Errorf("id %d is a duplicate, or error %v", id, err)
				}
			}
		})
	}
	group.Wait()
}

// TestProducerIDsOfNodesAreDisjoint checks that the highest id of a node is one below the lowest id
// of the node with the next node id.
func TestProducerIDsOfNodesAreDisjoint(t *testing.T) {
	for _, node := range []int32{0, 1, 999, 4094} {
		last, err := producerID(node, producerCounterMax)
		if err != nil {
			t.Fatal(err)
		}
		first, err := producerID(node+1, 0)
		if err != nil || first != last+1 {
			t.Errorf("node %d ends at %d, the next node starts at %d, error %v", node, last, first, err)
		}
	}
	if id, err := producerID(producerNodeMax, producerCounterMax); err != nil || id != 1<<63-1 {
		t.Errorf("got last id %d, error %v, want 1<<63-1", id, err)
	}
	for _, counter := range []int64{-1, producerCounterMax + 1} {
		if _, err := producerID(0, counter); err == nil {
			t.Errorf("producerID accepted counter %d", counter)
		}
	}
}

func TestProducerIDsRejectInvalidNodes(t *testing.T) {
	for _, node := range []int32{-1, producerNodeMax + 1} {
		if _, err := OpenProducerIDs(vfs.NewMem(), "/", node, time.Now); err == nil {
			t.Errorf("OpenProducerIDs accepted node %d", node)
		}
	}
}

// TestProducerIDsOfAFailedDisk checks that no id is allocated before the broker is registered, or
// without a reservation in the file. When the disk works again, allocation continues without gaps
// or duplicates.
func TestProducerIDsOfAFailedDisk(t *testing.T) {
	mem := vfs.NewMem()
	ids := openIDs(t, mem, 0, year2026)
	if id, err := ids.Next(); !errors.Is(err, errNotBegun) {
		t.Fatalf("before the registration: Next returned %d, error %v, want errNotBegun", id, err)
	}
	registerIDs(t, ids, &metadata.Broker{}, "")
	before := nextID(t, ids)
	for range producerIDBlock - 1 {
		before = nextID(t, ids)
	}
	broken := vfs.NewFault(mem)
	ids.fsys = broken
	failure := errors.New("no space left")
	broken.Inject(vfs.Rule{Err: failure})
	if id, err := ids.Next(); !errors.Is(err, failure) || !errors.Is(err, logstore.ErrStorage) {
		t.Fatalf("with a failed disk: Next returned %d, error %v", id, err)
	}
	ids.fsys = mem
	if id := nextID(t, ids); id != before+1 {
		t.Errorf("got id %d, want %d", id, before+1)
	}
}

func TestProducerIDsFileRoundTrips(t *testing.T) {
	for _, reserved := range []int64{0, 1, 27993600001000, producerCounterMax} {
		if got, err := parseProducerIDs(formatProducerIDs(reserved)); err != nil ||
			got != reserved {
			t.Errorf("%d was read as %d, error %v", reserved, got, err)
		}
	}
	for _, content := range []string{
		"", "0", "0\n", "0\n5", "1\n5\n", "0\n-1\n", "0\n2251799813685248\n", "0\n5\n6\n",
		"0\n05\n", "0\n5 \n", "x\n5\n", "\x00\x00",
	} {
		if got, err := parseProducerIDs([]byte(content)); err == nil {
			t.Errorf("%q was read as %d", content, got)
		}
	}
}

// damageIDs replaces the content of the file in the data directory.
func damageIDs(t *testing.T, fsys vfs.FS, content []byte) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fsys, "/data/"+producerIDsFile, content); err != nil {
		t.Fatal(err)
	}
}

// TestProducerIDsOfAMalformedFile checks that the broker starts with a malformed file. The ids
// continue above the bound registered for the disk, even if the clock was set back.
func TestProducerIDsOfAMalformedFile(t *testing.T) {
	for name, content := range map[string][]byte{
		"emptied": nil, "truncated": []byte("0\n2799"), "flipped": []byte("0\n2799360000100q\n"),
	} {
		t.Run(name, func(t *testing.T) {
			mem, known := vfs.NewMem(), &metadata.Broker{}
			ids := openIDs(t, mem, 0, year2026)
			registerIDs(t, ids, known, "disk")
			var last int64
			for range 2*producerIDBlock + 1 {
				last = nextID(t, ids)
			}
			for range 2 {
				damageIDs(t, mem, content)
				bound := known.ProducerIDs
				ids = openIDs(t, mem, 0, year2026.Add(-time.Hour))
				if err := ids.Lost(); err == nil ||
					!strings.Contains(err.Error(), producerIDsFile) {
					t.Fatalf("got Lost %v, want an error with the name of the file", err)
				}
				registerIDs(t, ids, known, "disk")
				if id := nextID(t, ids); id <= last || id < bound {
					t.Fatalf("got id %d, want one above %d and not below the registered bound %d", id, last, bound)
				} else {
					last = id
				}
			}
			if ids = openIDs(t, mem, 0, year2026); ids.Lost() != nil {
				t.Errorf("after Begin the file is still malformed: %v", ids.Lost())
			}
		})
	}
}

func FuzzParseProducerIDs(f *testing.F) {
	f.Add([]byte("0\n27993600001000\n"))
	f.Add([]byte("0\n9223372036854775808\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		reserved, err := parseProducerIDs(content)
		if err == nil && !bytes.Equal(formatProducerIDs(reserved), content) {
			t.Errorf("%q was read as %d", content, reserved)
		}
	})
}
