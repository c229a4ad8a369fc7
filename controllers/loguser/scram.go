package loguser

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/credentials"
)

// scramDelay is the time for which changes of LogUsers are coalesced before the shards are written.
const scramDelay = 500 * time.Millisecond

// ScramReconciler writes the verifiers of a LogCluster's LogUsers into Secrets that brokers read.
type ScramReconciler struct {
	secrets.Store
	Conditions *conditions.Shared
	Now        func(namespace string) time.Time
}

// Setup adds the controller to a manager.
func (r *ScramReconciler) Setup(mgr ctrl.Manager) error {
	return watch.NewController(mgr, "loguser-scram", 1).
		For(&v1alpha1.LogCluster{},
			builder.WithPredicates(watch.SpecChanged)).
		Watches(&v1alpha1.LogUser{}, watch.Coalesce(scramDelay, watch.ClusterOf)).
		Watches(&corev1.Secret{}, watch.Coalesce(scramDelay, watch.ClusterOf)).
		Complete(r)
}

// Reconcile writes a LogCluster's shards. The first shard is created with the first verifiers.
func (r *ScramReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil ||
		!cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	verifiers, err := r.verifiers(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.writeAdmin(ctx, cluster)
	if err == nil {
		err = r.writeShards(ctx, cluster, verifiers)
	}
	foreign := owned.AsForeign(err)
	if err != nil && foreign == nil {
		return ctrl.Result{}, err
	}
	if len(verifiers) == 0 && !scramListener(cluster) {
		// Without passwords, foreign Secrets with the names of shards are no obstacle.
		return ctrl.Result{}, r.Conditions.Remove(ctx, cluster, v1alpha1.ConditionUsersReady)
	}
	if err := r.Conditions.Set(ctx, cluster, usersCondition(foreign)); err != nil || foreign == nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: providedInterval}, nil
}

// usersCondition returns condition UsersReady. foreign is nil if the LogCluster's Secrets could be
// written.
func usersCondition(foreign *owned.ForeignError) metav1.Condition {
	if foreign != nil {
		return metav1.Condition{Type: v1alpha1.ConditionUsersReady, Status: metav1.ConditionFalse,
			Reason:  v1alpha1.ReasonSecretNameTaken,
			Message: "Brokers do not have new passwords. " + foreign.Message()}
	}
	return metav1.Condition{Type: v1alpha1.ConditionUsersReady, Status: metav1.ConditionTrue,
		Reason:  v1alpha1.ReasonUsersReady,
		Message: "The verifiers of all passwords are in the Secrets that brokers read."}
}

// verifiers returns the encoded verifiers of all LogUsers, by LogUser name.
func (r *ScramReconciler) verifiers(ctx context.Context,
	cluster *v1alpha1.LogCluster) (map[string][]byte, error) {
	users, owned := &v1alpha1.LogUserList{}, &corev1.SecretList{}
	if err := r.List(ctx, users, client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	if err := r.List(ctx, owned, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	byName, shards := map[string]*corev1.Secret{}, map[string]map[string][]byte{}
	for i := range owned.Items {
		secret := &owned.Items[i]
		byName[secret.Name] = secret
		if metav1.IsControlledBy(secret, cluster) {
			shards[secret.Name] = secret.Data
		}
	}
	all := map[string][]byte{}
	for _, user := range effective(users.Items) {
		secret := byName[v1alpha1.UserSecretName(user.Name)]
		if secret != nil && !metav1.IsControlledBy(secret, user) {
			continue
		}
		if secret == nil || !hasState(secret.Data) {
			if present := presentVerifiers(shards, user); present != nil {
				all[user.Name] = present // used until the Secret has been created again
			}
			continue
		}
		stored, err := decodeState(secret.Data)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", user.Name, err)
		}
		kept, _ := credentials.Prune(stored.Verifiers, r.Now(user.Namespace))
		encoded, err := (&v1alpha1.ScramVerifiers{UserName: user.PrincipalName(),
			UID: string(user.UID), Verifiers: kept}).Encode()
		if err != nil {
			return nil, fmt.Errorf("encode verifiers of user %s: %w", user.Name, err)
		}
		all[user.Name] = encoded
	}
	return all, nil
}

// effective returns the LogUsers with passwords that are not being deleted. If several have the
// same principal, only the oldest counts.
func effective(users []v1alpha1.LogUser) []*v1alpha1.LogUser {
	first := map[string]*v1alpha1.LogUser{}
	for i := range users {
		user := &users[i]
		if other := first[user.PrincipalName()]; other == nil || older(user, other) {
			first[user.PrincipalName()] = user
		}
	}
	var all []*v1alpha1.LogUser
	for _, user := range first {
		if user.DeletionTimestamp.IsZero() &&
			user.Spec.Authentication.Type == v1alpha1.UserScram {
			all = append(all, user)
		}
	}
	return all
}

// writeAdmin creates the Secret into which brokers write the verifiers that admin clients set. The
// operator creates it because brokers must not have the permission to create Secrets.
func (r *ScramReconciler) writeAdmin(ctx context.Context, cluster *v1alpha1.LogCluster) error {
	if !scramListener(cluster) {
		return nil
	}
	name := v1alpha1.ScramAdminSecretName(cluster.Name)
	read, err := r.Read(ctx, cluster, name)
	if err != nil || read.Exists() {
		return err
	}
	return r.Write(ctx, cluster, cluster.Name, name, read, map[string][]byte{})
}

// scramListener reports whether any listener authenticates users by password.
func scramListener(cluster *v1alpha1.LogCluster) bool {
	return slices.ContainsFunc(cluster.Spec.Listeners, func(l v1alpha1.Listener) bool {
		_, ok := mechanismOf(&l, v1alpha1.UserScram)
		return ok
	})
}

// writeShards writes the verifiers into shards. A user's verifiers stay in their current shard.
func (r *ScramReconciler) writeShards(ctx context.Context, cluster *v1alpha1.LogCluster,
	verifiers map[string][]byte) error {
	present := map[string]int{}
	var shards []secrets.Owned
	for {
		read, err := r.Read(ctx, cluster, v1alpha1.ScramSecretName(cluster.Name, len(shards)))
		if err != nil {
			return err
		}
		if !read.Exists() {
			break
		}
		for user := range read.Data {
			present[user] = len(shards)
		}
		shards = append(shards, read)
	}
	if len(shards) == 0 && len(verifiers) == 0 && !scramListener(cluster) {
		return nil
	}
	var users []string
	for user := range verifiers {
		users = append(users, user)
	}
	assigned := credentials.Shards(present, users)
	contents := make([]map[string][]byte, max(len(shards), credentials.ShardCount(assigned)))
	for i := range contents {
		contents[i] = map[string][]byte{}
	}
	for user, shard := range assigned {
		contents[shard][user] = verifiers[user]
	}
	for i, content := range contents {
		read := secrets.Owned{}
		if i < len(shards) {
			read = shards[i]
		}
		if err := r.Write(ctx, cluster, cluster.Name, v1alpha1.ScramSecretName(cluster.Name, i),
			read, content); err != nil {
			return err
		}
	}
	return nil
}
