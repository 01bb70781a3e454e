module toolrounds

go 1.26
