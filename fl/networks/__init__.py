"""Networks: regressors and any torch modules on flat parameter rows."""
