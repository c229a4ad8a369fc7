package vfs

import (
	"maps"
	"slices"
)

// KillClone returns the filesystem as it is after the process that uses it was killed: the
// operating system has all written data, and a later power cut (CrashClone) still loses what was
// not synced. The original remains usable; its open files and locks are not part of the clone.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	copier := killCopier{}
	clone := &Mem{root: copier.copy(m.root), locked: map[*memNode]bool{}}
	for _, change := range m.pending {
		clone.pending = append(clone.pending, copier.change(change))
	}
	return clone
}

// killCopier maps nodes to their copies. A node with two names, or one that only an unsynced change
// refers to, is copied once.
type killCopier map[*memNode]*memNode

func (c killCopier) copy(node *memNode) *memNode {
	if node == nil {
		return nil
	}
	if done := c[node]; done != nil {
		return done
	}
	copied := *node
	c[node] = &copied // before its entries are copied, which ends recursion on a cycle
	copied.content, copied.synced, copied.lost = slices.Clone(node.content),
		slices.Clone(node.synced), slices.Clone(node.lost)
	copied.entries, copied.durable = c.entries(node.entries), c.entries(node.durable)
	return &copied
}

func (c killCopier) entries(entries map[string]*memNode) map[string]*memNode {
	copied := maps.Clone(entries)
	for name, node := range copied {
		copied[name] = c.copy(node)
	}
	return copied
}

func (c killCopier) change(change memChange) memChange {
	var copied memChange
	for _, edge := range change.edges {
		copied.edges = append(copied.edges, memEdge{c.copy(edge.dir), edge.name, c.copy(edge.node)})
	}
	for _, node := range change.nodes {
		copied.nodes = append(copied.nodes, c.copy(node))
	}
	return copied
}
