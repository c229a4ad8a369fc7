// Package apply applies the objects that run a LogCluster, which internal/operator/render renders,
// and the sizes of volume claims.
package apply
