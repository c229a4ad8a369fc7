package vfs

import (
	"maps"
	"slices"
)

// KillClone returns a copy of the filesystem after the process that uses it was killed. All written
// data is still there, but a later power cut (CrashClone) loses unsynced data. The original remains
// usable. The clone does not contain the original's open files and locks.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	copier := killCopier{}
	clone := &Mem{root: copier.copy(m.root), locked: map[*memNode]bool{}, boots: m.boots}
	for _, change := range m.pending {
		clone.pending = append(clone.pending, copier.change(change))
	}
	return clone
}

// killCopier maps nodes to their copies. So a node is copied only once, even if it has two names or
// is referenced by unsynced changes.
type killCopier map[*memNode]*memNode

func (c killCopier) copy(node *memNode) *memNode {
	if node == nil {
		return nil
	}
	if done := c[node]; done != nil {
		return done
	}
	copied := *node
	c[node] = &copied // set before copying the entries, so that a cycle ends the recursion
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
