package logcluster

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/watch"
)

// ofClaim maps a broker's volume claim to the LogCluster.
func ofClaim(_ context.Context, claim client.Object) []reconcile.Request {
	cluster, _, ok := v1alpha1.ParseVolumeClaimName(claim.GetName())
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: claim.GetNamespace(), Name: cluster}}}
}

// ofShard maps a Secret with SCRAM verifiers to its LogCluster, because the brokers' Role names
// these Secrets.
func ofShard(ctx context.Context, secret client.Object) []reconcile.Request {
	cluster := secret.GetLabels()[v1alpha1.LabelCluster]
	if !strings.HasPrefix(secret.GetName(), cluster+"-scram-") {
		return nil
	}
	return watch.ClusterOf(ctx, secret)
}
