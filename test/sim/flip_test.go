package sim

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// checksumAt is the position of the checksum in a batch. The checksum does not cover the bytes
// before it, so the simulation does not flip their bits.
const checksumAt = 17

// flipBit flips one bit of a rolled segment on the disk of a broker. The damage must not spread: no
// replica copies the batch, no pass of the cleaner gives it a valid checksum, and a client that
// verifies checksums rejects it. Later a person removes the directory of the log, and the broker
// copies the log again.
func (w *world) flipBit(b *broker) {
	runs := b.live.Load() != nil && !b.stopping
	if !w.profile.diskErrors || !runs || len(b.flipped) > 0 || !w.mayLoseSynced(b) {
		return
	}
	t := w.randomTopic()
	name := w.flipIn(b.disk, "/data/"+t.partitionID().String())
	if name == "" {
		return
	}
	w.tracef("a bit of %s on broker %d is flipped", name, b.id)
	b.w.mu.Lock()
	b.flipped = append(b.flipped, t.name)
	b.w.mu.Unlock()
	w.scale.count.flips++
	w.schedule(w.randomDuration(time.Second, 10*time.Second), func() { w.removeFlipped(b, false) })
}

// flipIn flips a bit of a segment that is not the last one, and returns the name of the segment, or
// "" if there is none.
func (w *world) flipIn(disk *vfs.Mem, dir string) string {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return ""
	}
	var segments []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".log") {
			segments = append(segments, filepath.Join(dir, entry.Name()))
		}
	}
	slices.Sort(segments)
	if len(segments) < 2 {
		return ""
	}
	name := segments[w.random.IntN(len(segments)-1)]
	content, err := disk.ReadFile(name)
	w.must(err)
	var batches []int64 // positions
	for rest := content; len(rest) > 0; {
		_, next, err := record.Next(rest)
		if err != nil {
			return "" // the segment is being written
		}
		batches = append(batches, int64(len(content)-len(rest)))
		rest = next
	}
	if len(batches) == 0 {
		return ""
	}
	position := batches[w.random.IntN(len(batches))]
	batch, _, err := record.Next(content[position:])
	w.must(err)
	position += int64(checksumAt + w.random.IntN(len(batch)-checksumAt))
	file, err := disk.OpenReadWrite(name)
	w.must(err)
	_, err = file.WriteAt([]byte{content[position] ^ 1<<w.random.IntN(8)}, position)
	w.must(err, file.Sync(), file.Close())
	return name
}

// removeFlipped removes the directories of the damaged logs while the broker is stopped. Unless
// always is set, it waits until another in-sync replica has the records.
func (w *world) removeFlipped(b *broker, always bool) {
	if len(b.flipped) == 0 {
		return
	}
	if !always && (b.stopping || !w.mayLoseData(b)) {
		w.schedule(time.Second, func() { w.removeFlipped(b, false) })
		return
	}
	disk := b.disk.KillClone()
	for _, topic := range b.flipped {
		dir := "/data/" + w.meta.topicNamed(topic).partitionID().String()
		w.tracef("broker %d: %s is removed", b.id, dir)
		w.must(disk.RemoveAll(dir), disk.SyncDir("/data"))
	}
	if l := b.live.Load(); l != nil {
		w.endProcess(l, exit{lostAll: true}, w.downtime())
	} else {
		b.loseAll()
	}
	b.disk = disk
	b.w.mu.Lock()
	b.flipped = nil
	b.w.mu.Unlock()
}

// isFlipped reports whether a log of the broker is damaged.
func (b *broker) isFlipped(topic string) bool {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.Contains(b.flipped, topic)
}
