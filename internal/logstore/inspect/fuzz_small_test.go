package inspect

import (
	"io"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// FuzzFilesBesideALog checks that Dump and Verify terminate without a panic for any content of a
// producer snapshot, the leader epochs, a key sidecar and the sidecars' salt.
func FuzzFilesBesideALog(f *testing.F) {
	batches := []batchSpec{{offset: 0, producer: 7, sequence: 4, txn: true},
		{offset: 1, producer: 7, sequence: 5, txn: true}}
	f.Add(snapshotOf(snapshotLine{ProducerID: 7, LastSequence: 5, LastOffset: 1}),
		[]byte("0\n1\n0 0\n"), []byte("hwkeys\x00\x01"), []byte("hwsalt\x00\x01"))
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, []byte("0\n-1\n"), make([]byte, 256),
		make([]byte, 28))
	f.Fuzz(func(t *testing.T, snapshot, epochs, sidecar, salt []byte) {
		mem := logOf(t, batches)
		for name, content := range map[string][]byte{
			segment.Name(2, snapshotExtension, ""): snapshot, epochFile: epochs,
			segment.Name(0, segment.KeysExtension, ""): sidecar, "key-salt": salt,
		} {
			must(t, vfs.WriteFileAtomic(mem, "/p-0/"+name, content))
		}
		_ = Dump(mem, []string{"/p-0/" + epochFile,
			"/p-0/" + segment.Name(2, snapshotExtension, "")}, DumpOptions{JSON: true}, io.Discard)
		if _, err := Verify(mem, []string{"/p-0"}, VerifyOptions{}, io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
