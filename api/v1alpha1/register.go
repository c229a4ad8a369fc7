package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version heartwood.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "heartwood.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&LogCluster{}, &LogClusterList{},
		&Topic{}, &TopicList{},
		&LogUser{}, &LogUserList{},
		&PartitionSet{}, &PartitionSetList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
