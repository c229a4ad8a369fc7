package vfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// pageBytes is the unit in which a crash keeps or loses unsynced content. A crash may also keep
// only the beginning of a page, because not every disk writes a sector atomically.
const pageBytes = 512

// CrashClone returns a copy of the filesystem after a power cut at this moment, in the worst case:
// all unsynced changes are lost. The original remains usable. The clone does not contain the
// original's open files and locks.
func (m *Mem) CrashClone() *Mem { return m.crash(nil) }

// CrashClonePartly is like CrashClone, but some of the unsynced changes have reached the disk,
// depending on seed. These are the directory changes that keptChanges selects, and for each file
// some changed pages and a size between the old and the new size. Other pages have their old
// content, or zeros beyond the old size. A page can also be torn: it has the new content up to some
// byte, and the old content after it.
func (m *Mem) CrashClonePartly(seed uint64) *Mem { return m.crash(rand.New(rand.NewPCG(seed, 0))) }

// BootID implements FS. Each power cut (CrashClone) changes the id.
func (m *Mem) BootID() string { return fmt.Sprintf("boot-%d", m.boots) }

func (m *Mem) crash(random *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	// maps each directory with a kept change to its entries after the crash
	kept := map[*memNode]map[string]*memNode{}
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
	clone.boots = m.boots + 1
	clone.root = (&crashCopier{random: random, kept: kept,
		copies: map[*memNode]*memNode{}}).copy(m.root)
	return clone
}

// keptChanges selects the directory changes that have reached the disk. For half of the seeds it
// selects the oldest changes up to some point, because filesystems with a journal keep the order of
// changes (ext4, XFS). POSIX guarantees no order, and filesystems that log each file separately
// keep none (Btrfs, F2FS). So for the other seeds it selects arbitrary changes, but if a change is
// lost, later changes of the same name or file are lost too.
func keptChanges(pending []memChange, random *rand.Rand) []memChange {
	if random.IntN(2) == 0 {
		return pending[:random.IntN(len(pending)+1)]
	}
	var kept []memChange
	lostNames, lostNodes := map[memEdge]bool{}, map[*memNode]bool{}
	// on average half of the changes, an eighth of them, or one change is lost
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

// crashCopier copies the nodes that survive a crash. If only a part of a rename between directories
// survives, a node can have two names. crashCopier copies such a node only once.
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
	// Copy in the order of names, so that the same seed keeps the same bytes in every run.
	for _, name := range (&memNode{entries: entries}).names() {
		dir.entries[name] = c.copy(entries[name])
	}
	dir.durable = cloneEntries(dir.entries)
	return dir
}

// content returns a file's content after the crash. It chooses size and pages independently, as on
// a filesystem that journals only metadata: a file can have its new size with old content or zeros.
// Users of the filesystem must detect that with checksums.
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
			end = page + c.random.IntN(end-page) // a torn page
		}
		copy(content[page:end], node.content[page:end])
	}
	return content
}

// size returns the old size, the new size, or a size between the two.
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
