package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
)

var tableGenerator = printers.NewTableGenerator().With(printersinternal.AddHandlers)

// answerTables answers each object or list with its table and its metadata, or with {"refused":"why"}. It must run in a synctest
// bubble, whose clock it moves to the time of each line.
func answerTables(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	err := lines(input, func(line []byte, _ bool) error {
		f, err := parseFields(line)
		if err != nil {
			return err
		}
		now, err := need[time.Time](f, "now")
		if err != nil {
			return err
		}
		wait := time.Until(now)
		if wait < 0 {
			return fmt.Errorf("%v is before the time of the line above", now)
		}
		time.Sleep(wait)
		include, err := need[metav1.IncludeObjectPolicy](f, "include")
		if err != nil {
			return err
		}
		object, err := tableObject(f)
		if err != nil {
			return p.encoder.Encode(result{"refused": err.Error()})
		}
		table, err := asTable(object, include)
		if err != nil {
			return err
		}
		metadata, err := asMetadata(object)
		if err != nil {
			return err
		}
		return p.encoder.Encode(result{"table": table, "metadata": metadata})
	})
	return errors.Join(err, p.out.Flush())
}

// tableObject is the line's object as the API server has it: one from its storage, or one that it made for a bookmark.
func tableObject(f fields) (runtime.Object, error) {
	if !f.present("bookmark") {
		return runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), f["object"])
	}
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(f["bookmark"], &partial); err != nil {
		return nil, err
	}
	object, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Version: runtime.APIVersionInternal, Kind: partial.Kind})
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(partial.ResourceVersion)
	accessor.SetAnnotations(partial.Annotations)
	return object, nil
}

// asTable is what the API server's handlers do with the printers' table (asTable of k8s.io/apiserver/pkg/endpoints/handlers), but
// for whole objects, which are left out.
func asTable(object runtime.Object, include metav1.IncludeObjectPolicy) (*metav1.Table, error) {
	table, err := tableGenerator.GenerateTable(object, printers.GenerateOptions{Wide: true})
	if err != nil {
		return nil, err
	}
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	for i := range table.Rows {
		row := &table.Rows[i]
		accessor, err := meta.Accessor(row.Object.Object)
		if err != nil {
			return nil, err
		}
		ends := accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		if include == metav1.IncludeObject || include == metav1.IncludeNone && !ends {
			row.Object.Object = nil
			continue
		}
		row.Object.Object = partialOf(accessor)
	}
	return table, nil
}

// asMetadata is the metadata of an object, or of the items of a list, as the API server gives it.
func asMetadata(object runtime.Object) (runtime.Object, error) {
	if !meta.IsListType(object) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		return partialOf(accessor), nil
	}
	list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	of, err := meta.ListAccessor(object)
	if err != nil {
		return nil, err
	}
	list.ResourceVersion = of.GetResourceVersion()
	err = meta.EachListItem(object, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err == nil {
			list.Items = append(list.Items, *partialOf(accessor))
		}
		return err
	})
	return list, err
}

func partialOf(object metav1.Object) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(object)
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return partial
}
