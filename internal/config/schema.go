package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// Schema gives the JSON Schema (draft 2020-12) of a configuration, for editors.
// Definitions in compositeTools are checked by that of definitions.Schema.
func Schema() json.RawMessage {
	var ofDefinitions struct {
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(definitions.Schema(), &ofDefinitions); err != nil {
		panic(fmt.Sprintf("config: the schema of definitions: %v", err)) // it is a constant
	}
	defs := ofDefinitions.Defs
	for _, t := range mappings() {
		defs[definitions.SchemaName(t)] = definitions.MappingSchema(t, factsOf)
	}
	encoded, err := json.Marshal(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "perdure configuration",
		"$ref": "#/$defs/" + definitions.SchemaName(reflect.TypeFor[configuration]()), "$defs": defs,
	})
	if err != nil {
		panic(fmt.Sprintf("config: the schema: %v", err)) // it is a constant
	}
	return encoded
}

// mappings are the types of the model, each before those that it refers to.
func mappings() []reflect.Type {
	var found []reflect.Type
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if !isMapping(t) || seen[t] {
			return
		}
		seen[t] = true
		found = append(found, t)
		for _, key := range definitions.Keys(t) {
			visit(t.FieldByIndex(key.Index).Type)
		}
	}
	visit(reflect.TypeFor[configuration]())
	return found
}

// factsOf says by the tags of a key what its type does not, in words of JSON Schema.
func factsOf(key definitions.Key) map[string]any {
	facts := map[string]any{"description": key.Tag.Get("help")}
	if hint, ignored := key.Tag.Lookup("ignored"); ignored {
		facts["description"], facts["deprecated"] = noEffectText(key.Tag.Get("help"), hint), true
	}
	if words := key.Tag.Get("enum"); words != "" {
		facts["type"], facts["enum"] = "string", strings.Split(words, ",")
	}
	for tag, word := range map[string]string{"min": "minimum", "max": "maximum", "default": "default"} {
		written := key.Tag.Get(tag)
		if n, err := strconv.Atoi(written); err == nil {
			facts[word] = n
		} else if flag, err := strconv.ParseBool(written); err == nil {
			facts[word] = flag
		} else if tag == "default" && written != "" {
			facts[word] = written
		}
	}
	if key.Name == "compositeTools" {
		facts["$ref"] = "#/$defs/compositeTools"
	}
	return facts
}

// noEffectText adds to the help of a key that it does nothing here.
func noEffectText(help, instead string) string {
	return help + " " + strings.TrimSuffix("No effect here; "+instead, "; ") + "."
}
