package vfs

import (
	"math/rand/v2"
	"slices"
)

// pageBytes is the unit in which a crash keeps or loses unsynced content. Of some pages a crash
// keeps only the beginning, because not every disk writes a sector atomically.
const pageBytes = 512

// CrashClone returns the filesystem as a power cut at this moment would leave it in the worst case,
// without any unsynced change. The original remains usable; its open files and locks are not part
// of the clone.
func (m *Mem) CrashClone() *Mem { return m.crash(nil) }

// CrashClonePartly is like CrashClone, but some of the unsynced changes, chosen by seed, did reach
// the disk: the directory changes that keptChanges selects, and of each file some pages and some of
// its growth, in any order. A page within the new size that did not reach the disk reads as before,
// or as zeros. A page that was being written is new up to some byte.
func (m *Mem) CrashClonePartly(seed uint64) *Mem { return m.crash(rand.New(rand.NewPCG(seed, 0))) }

func (m *Mem) crash(random *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[*memNode]map[string]*memNode{} // entries of each changed directory after the crash
	if random != nil {
		for _, change := range keptChanges(m.pending, random) {
			for _, edge := range change.edges {
				if kept[edge.dir] == nil {
					kept[edge.dir] = cloneEntries(edge.dir.durable)
				}
				edge.set(kept[edge.dir])
			}
		}
	}
	clone := NewMem()
	clone.root = (&crashCopier{random: random, kept: kept,
		copies: map[*memNode]*memNode{}}).copy(m.root)
	return clone
}

// keptChanges selects the directory changes that reached the disk. Half of the time it selects a
// prefix, because a journal keeps their order (ext4, XFS). POSIX guarantees no order, and a
// filesystem that logs file by file (Btrfs, F2FS) keeps none: the other half of the time it selects
// any of them, except that a change of the same name or the same file as a lost one is lost too.
func keptChanges(pending []memChange, random *rand.Rand) []memChange {
	if random.IntN(2) == 0 {
		return pending[:random.IntN(len(pending)+1)]
	}
	var kept []memChange
	lostNames, lostNodes := map[memEdge]bool{}, map[*memNode]bool{}
	// half, few, or about one of them is lost
	oneIn := []int{2, 8, 1 + len(pending)}[random.IntN(3)]
	for _, change := range pending {
		lost := random.IntN(oneIn) == 0
		for _, edge := range change.edges {
			lost = lost || lostNames[memEdge{dir: edge.dir, name: edge.name}]
		}
		for _, node := range change.nodes {
			lost = lost || lostNodes[node]
		}
		if !lost {
			kept = append(kept, change)
			continue
		}
		for _, edge := range change.edges {
			lostNames[memEdge{dir: edge.dir, name: edge.name}] = true
		}
		for _, node := range change.nodes {
			lostNodes[node] = true
		}
	}
	return kept
}

// crashCopier copies the surviving nodes. A node with two names, which a rename between directories
// can leave, is copied once.
type crashCopier struct {
	random *rand.Rand // nil: keep no unsynced change
	kept   map[*memNode]map[string]*memNode
	copies map[*memNode]*memNode
}

func (c *crashCopier) copy(node *memNode) *memNode {
	if done := c.copies[node]; done != nil {
		return done
	}
	if !node.dir {
		content := c.content(node)
		file := &memNode{
			content: content, synced: slices.Clone(content), mtime: node.syncedMtime,
			syncedMtime: node.syncedMtime,
		}
		c.copies[node] = file
		return file
	}
	dir := newMemDir()
	dir.mtime = node.mtime
	c.copies[node] = dir
	entries := node.durable
	if kept, changed := c.kept[node]; changed {
		entries = kept
	}
	// Sorted by name, so that the same seed keeps the same bytes.
	for _, name := range (&memNode{entries: entries}).names() {
		dir.entries[name] = c.copy(entries[name])
	}
	dir.durable = cloneEntries(dir.entries)
	return dir
}

// content returns the surviving content of a file. Size and pages are chosen independently, as on a
// filesystem that journals only metadata: a file may have its new size and old or no content.
// Checksums must detect that.
func (c *crashCopier) content(node *memNode) []byte {
	content := slices.Clone(node.synced)
	if c.random == nil || node.dirtyFrom == node.dirtyTo && len(node.content) == len(node.synced) {
		return content
	}
	content = resize(content, c.size(len(node.synced), len(node.content)))
	for page := 0; page < len(content); page += pageBytes {
		end := min(page+pageBytes, len(content), len(node.content))
		if page >= end || c.random.IntN(2) == 0 {
			continue
		}
		if c.random.IntN(8) == 0 {
			end = page + c.random.IntN(end-page) // torn
		}
		copy(content[page:end], node.content[page:end])
	}
	return content
}

// size returns the old size, the new one, or a size between them.
func (c *crashCopier) size(before, after int) int {
	low, high := min(before, after), max(before, after)
	switch c.random.IntN(3) {
	case 0:
		return before
	case 1:
		return after
	}
	return low + c.random.IntN(high-low+1)
}

// resize truncates content, or extends it with zeros.
func resize(content []byte, size int) []byte {
	if size <= len(content) {
		return content[:size]
	}
	return append(content, make([]byte, size-len(content))...)
}

func cloneEntries(entries map[string]*memNode) map[string]*memNode {
	clone := make(map[string]*memNode, len(entries))
	for name, node := range entries {
		clone[name] = node
	}
	return clone
}
