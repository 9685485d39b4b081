"""Tables in files that people upload (CSV and XLSX), and cells of CSV files that people open."""
