// Package apply applies the objects that run a LogCluster: those of internal/operator/render, and
// the sizes of volume claims.
package apply
