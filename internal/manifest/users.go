package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// addUser adds a LogUser. It rejects a second LogUser with the same resource name, which kubectl
// would treat as an update. It also rejects a second LogUser for the same principal, which would
// never become ready on Kubernetes.
func (l *loader) addUser(o object, user *v1alpha1.LogUser) {
	path := field.NewPath("metadata", "name")
	for _, other := range l.set.Users {
		switch {
		case other.Name == user.Name:
			l.fault(o, fmt.Sprintf("%s: %s contains a LogUser of this name",
				field.Duplicate(path, user.Name), l.set.File("LogUser/"+other.Name)))
			return
		case other.PrincipalName() == user.PrincipalName():
			l.fault(o, fmt.Sprintf("%s: the LogUser %s in %s has this user name",
				field.Duplicate(field.NewPath("spec", "userName"), user.PrincipalName()), other.Name,
				l.set.File("LogUser/"+other.Name)))
			return
		}
	}
	l.set.files["LogUser/"+user.Name] = o.file
	l.set.Users = append(l.set.Users, user)
}

// checkUser checks that a LogUser belongs to the LogCluster in the manifests.
func (l *loader) checkUser(user *v1alpha1.LogUser) {
	source := object{l.set.File("LogUser/" + user.Name),
		map[string]any{"kind": "LogUser", "metadata": map[string]any{"name": user.Name}}}
	cluster := l.set.Cluster
	switch {
	case cluster == nil:
		l.fault(source, field.Invalid(field.NewPath("spec", "cluster"), user.Spec.Cluster,
			"the manifests contain no LogCluster: add it").Error())
	case user.Spec.Cluster != cluster.Name:
		l.fault(source, field.Invalid(field.NewPath("spec", "cluster"), user.Spec.Cluster, fmt.Sprintf(
			"the LogCluster of these manifests is %s: use its name", cluster.Name)).Error())
	case user.Namespace != cluster.Namespace:
		l.fault(source, field.Invalid(field.NewPath("metadata", "namespace"), user.Namespace,
			fmt.Sprintf("the LogCluster %s is in namespace %s: use the same namespace for the LogUser",
				cluster.Name, cluster.Namespace)).Error())
	}
}
