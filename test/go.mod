module github.com/perdure/perdure/test

go 1.26.8

replace github.com/perdure/perdure => ..
